"""What a function reads from its environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.aws.runtime import deployed_definitions
from millrace.aws.settings import Settings
from tests.pull.calling import defined

BODY, KEY, IDEMPOTENCY, RESULT = b'{"say":"marked-body"}', "marked-key", "marked-idempotency", b"marked-result"


def test_histories_are_off_unless_asked_for() -> None:
    needed = dict.fromkeys(("QUEUE_TABLE", "DEAD_LETTER_TABLE", "BODY_BUCKET", "DEFINITIONS"), "x")

    assert not Settings.from_environment(needed).log_history
    assert Settings.from_environment({**needed, "LOG_HISTORY": "1"}).log_history


def test_a_queue_that_outlives_its_large_bodies_is_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = {"queues": {"Jobs": defined("Jobs", retention={"max_age_seconds": 50 * 86_400})}, "webhooks": {}}
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps({"format": 1, **compiled}))
    needed = {"QUEUE_TABLE": "q", "DEAD_LETTER_TABLE": "d", "BODY_BUCKET": "b", "DEFINITIONS": str(path)}
    deployed_definitions(Settings.from_environment({**needed, "BODY_DAYS": "90"}))
    assert caplog.messages == []
    deployed_definitions(Settings.from_environment(needed))
    assert "'Jobs' are gone after 60 days and needed for 71" in caplog.text
