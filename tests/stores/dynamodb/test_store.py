"""The store is its parts: one client, both tables, and the caller's retries and clock."""

from __future__ import annotations

from typing import Any

from millrace.model.clock import Clock
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from tests.conftest import NOON
from tests.faults.client import FaultyClient, StoreOnFaultyClient, throttled
from tests.stores.dynamodb.conftest import NAMES
from tests.stores.samples import Samples, claimed


def test_every_method_of_the_interface_has_one_part_that_keeps_it() -> None:
    wanted = [name for name in vars(Store) if not name.startswith("_")]
    parts = DynamoStore.__mro__[1:-1]
    assert wanted
    for name in wanted:
        assert [part.__name__ for part in parts if name in vars(part)].__len__() == 1, name


def test_a_dead_letter_lies_in_a_table_of_its_own(store: StoreOnFaultyClient, samples: Samples) -> None:
    entry = samples.entry()
    held = claimed(entry)
    store.put_entries([entry])
    store.claim_entries([held], NOON)
    dead_letter = samples.dead_letter(samples.message(entry))
    seen: list[dict[str, Any]] = []

    def spy(send: Any, _operation: str, arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        return send(**arguments)

    store.faults.plan(spy)
    store.bury_entry(held, samples.buried(dead_letter), dead_letter)
    writes = [next(iter(write.values())) for write in seen[0]["TransactItems"]]
    assert [write["TableName"] for write in writes] == [NAMES.queue, NAMES.queue, NAMES.dead_letters]


def test_requests_go_by_the_retries_that_were_given(faults: FaultyClient, clock: Clock) -> None:
    client: Any = faults
    calls = RetryingClient(client, monotonic=faults.time.monotonic, sleep=faults.time.sleep, chance=lambda: 1.0)
    store = DynamoStore(client, NAMES, clock=clock, calls=calls)
    faults.plan(throttled)
    assert store.get_sweep_position("x") == ""
    assert faults.time.waits == [0.025]
