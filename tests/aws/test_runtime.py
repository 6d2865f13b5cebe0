"""A runtime from a function's settings: its tables, its bucket, its deadline, histories where they are asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.aws.blobs import S3Blobs
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.settings import Settings
from millrace.model.errors import StoreUnavailable
from millrace.stores.memory.queue import MemoryBlobs
from tests.faults.client import FaultyClient, never_sent, works
from tests.pull.calling import defined

SETTINGS = Settings("queues", "letters", "bodies")


class Tables:
    """A client of empty tables."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_item(self, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["TableName"])
        return {}


def test_the_store_is_on_the_tables_of_the_settings() -> None:
    tables: Any = Tables()
    runtime = aws_runtime(SETTINGS, tables)
    runtime.store.get_queue_state("t", "Jobs")
    runtime.store.get_dead_letter("t", "Jobs", "x")
    assert tables.asked == ["queues", "letters"]
    assert isinstance(runtime.blobs, S3Blobs)


def test_blobs_may_lie_elsewhere_and_histories_are_kept_where_asked_for() -> None:
    tables: Any = Tables()
    blobs = MemoryBlobs()
    runtime = aws_runtime(SETTINGS, tables, blobs=blobs)
    assert (runtime.blobs, runtime.history) == (blobs, None)
    assert aws_runtime(replace(SETTINGS, log_history=True), tables, blobs=blobs).history is not None


def test_a_request_is_repeated_up_to_the_deadline_that_was_given() -> None:
    faulty: Any = FaultyClient(Tables())
    runtime = aws_runtime(SETTINGS, faulty, deadline_s=0.0, blobs=MemoryBlobs())
    faulty.plan(never_sent, works)
    with pytest.raises(StoreUnavailable, match="in time"):
        runtime.store.get_queue_state("t", "Jobs")
    assert faulty.sent == ["get_item"]


def test_a_queue_that_outlives_its_large_bodies_is_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = {
        "queues": {"Jobs": defined("Jobs", retention={"max_age_seconds": 50 * 86_400})},
        "webhooks": {},
        "schedules": {},
        "tenants": {},
    }
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps({"format": 1, **compiled}))
    needed = {"QUEUE_TABLE": "q", "DEAD_LETTER_TABLE": "d", "BODY_BUCKET": "b", "DEFINITIONS": str(path)}
    deployed_definitions(Settings.from_environment({**needed, "BODY_DAYS": "90"}))
    assert caplog.messages == []
    deployed_definitions(Settings.from_environment(needed))
    assert "'Jobs' are gone after 60 days and needed for 71" in caplog.text
