"""Where the messages of many keys are: each tenant's own, and nothing is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millrace.definitions import load
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.spark import lookup
from millrace.spark.connection import TableConnection, Tables
from millrace.spark.lookup import CHUNK, Lookup, look_up
from tests.conftest import Bench

CONNECTION = TableConnection("q", "d", "b")


@pytest.fixture
def queue(memory_bench: Bench, definitions: bytes, monkeypatch: pytest.MonkeyPatch) -> Queue:
    client: object = None
    tables = Tables(memory_bench.runtime, client)  # type: ignore[arg-type]
    monkeypatch.setattr(lookup, "connect", lambda _connection: tables)
    return memory_bench.runtime.queue(memory_bench.tenant, load(definitions).queue("Jobs").spec)


def found(
    definitions: bytes, *batches: list[tuple[str, str]], webhooks: tuple[str, ...] = ()
) -> dict[tuple[str, str], str]:
    given = [
        pa.RecordBatch.from_pydict(
            {
                "tenant": [tenant for tenant, _ in rows],
                "id": [id_ for _, id_ in rows],
                "idempotency_key": [id_.removeprefix("id-of-") for _, id_ in rows],
            }
        )
        for rows in batches
    ]
    look = Lookup(CONNECTION, definitions, "Jobs", webhooks=webhooks)
    rows = [row for batch in look_up(look, given) for row in batch.to_pylist()]
    return {(row["tenant"], row["id"]): row["status"] for row in rows}


def test_each_message_has_its_status_and_what_is_not_there_is_missing(queue: Queue, definitions: bytes) -> None:
    done = enqueue(queue, Draft(b"{}")).message_id
    ack(queue, [held.entry for held in claim(queue, owner="w").claims])
    ready = enqueue(queue, Draft(b"{}")).message_id
    mine = queue.tenant
    assert found(definitions, [(mine, done), ("other", done)], [(mine, ready), (mine, "none")]) == {
        (mine, done): "done",
        (mine, ready): "ready",
        (mine, "none"): "missing",
        ("other", done): "missing",
    }


def test_more_than_one_read_takes_are_all_answered(queue: Queue, definitions: bytes) -> None:
    ids = [f"id-{number}" for number in range(2 * CHUNK + 1)]
    answers = found(definitions, [(queue.tenant, id_) for id_ in ids])
    assert answers == {(queue.tenant, id_): "missing" for id_ in ids}


def test_looking_changes_nothing(queue: Queue, definitions: bytes) -> None:
    id_ = enqueue(queue, Draft(b"{}")).message_id
    before = queue.store.get_records(id_), queue.state(fresh=True)
    found(definitions, [(queue.tenant, id_)])
    assert (queue.store.get_records(id_), queue.state(fresh=True)) == before


def test_what_a_webhook_brought_is_found_by_its_key_where_webhooks_count(queue: Queue, definitions: bytes) -> None:
    enqueue(queue, Draft(b"{}", idempotency_key="delivery-1", source="webhook:GitHub"))
    asked = [(queue.tenant, "id-of-delivery-1"), (queue.tenant, "id-of-delivery-2")]
    assert set(found(definitions, asked).values()) == {"missing"}
    assert set(found(definitions, asked, webhooks=("Other",)).values()) == {"missing"}
    assert found(definitions, asked, webhooks=("Other", "GitHub")) == {asked[0]: "ready", asked[1]: "missing"}
