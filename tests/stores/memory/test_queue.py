"""The store in memory keeps to itself: nothing that it was given or gave out can change it. See also `tests/stores`."""

from __future__ import annotations

import threading

import pytest

from millrace.model.errors import BodyLost
from millrace.model.transaction import app_writes
from millrace.stores.interface import APPLIED, Refused
from millrace.stores.memory.queue import REQUEST_TOKEN_MS, MemoryBlobs, MemoryStore
from tests.conftest import NOON, Clock
from tests.stores.samples import Samples, claimed


def test_a_blob_comes_back_or_is_lost() -> None:
    blobs = MemoryBlobs()
    blobs.put("a", b"\x00")
    assert blobs.get("a") == b"\x00"
    with pytest.raises(BodyLost, match="'b'"):
        blobs.get("b")


def test_of_many_threads_one_claims(samples: Samples) -> None:
    store, entry = MemoryStore(), samples.entry()
    store.put_entries([entry])
    start = threading.Barrier(8)
    outcomes: list[object] = []

    def race(number: int) -> None:
        start.wait()
        outcomes.extend(store.claim_entries([claimed(entry, f"w{number}")], NOON))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(APPLIED) == 1
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 7


def test_a_state_that_was_handed_out_does_not_change(tenant: str) -> None:
    store = MemoryStore()
    before = store.get_queue_state(tenant, "Jobs")
    paused = store.set_paused(tenant, "Jobs", NOON, "olga")
    assert (before.paused_at, paused.paused_at) == (0, NOON)
    assert store.get_queue_state(tenant, "Jobs") == paused


def test_two_stores_share_nothing(samples: Samples) -> None:
    one, other, entry = MemoryStore(), MemoryStore(), samples.entry()
    one.put_entries([entry])
    assert other.get_entry(entry.place) is None


def test_request_tokens_are_forgotten_as_dynamodb_does(clock: Clock) -> None:
    """In ten minutes: a process that lives for long must not keep them all."""
    store = MemoryStore(clock)
    store.app_tables.create("orders", "pk")
    add = {"UpdateExpression": "ADD charges :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    charge = app_writes([{"Update": {"TableName": "orders", "Key": {"pk": {"S": "1"}}, **add}}])

    def charges() -> str:
        return str(store.app_tables.get_item(TableName="orders", Key={"pk": {"S": "1"}})["Item"]["charges"]["N"])

    store.transact([], charge, "token")
    clock.forward(REQUEST_TOKEN_MS - 1)
    assert store.transact([], charge, "token") == APPLIED
    assert charges() == "1"
    clock.forward(1)
    assert store.transact([], charge, "another") == APPLIED
    assert list(store.request_tokens) == ["another"]
    assert charges() == "2"
