"""The list of queues in DynamoDB: a small item for each, and its state under a key of its own."""

from __future__ import annotations

from millrace.model.queue_state import CreditRequest, QueueState
from millrace.stores.dynamodb.counters import queue_state_key
from millrace.stores.dynamodb.registry import registry_key
from tests.conftest import NOON
from tests.faults.client import StoreOnFaultyClient


def test_a_queue_in_use_has_an_item_in_the_list_and_a_state_elsewhere(faulty: StoreOnFaultyClient, tenant: str) -> None:
    faulty.register(tenant, "Jobs")
    table = faulty._names.queue
    key = registry_key(tenant, "Jobs")
    assert key == {"pk": {"S": "QUEUES"}, "sk": {"S": f"{tenant}#Jobs"}}
    assert faulty._calls.get_item(table, key) == key, "nothing but its name: the list stays small"
    state = faulty._calls.get_item(table, queue_state_key(tenant, "Jobs"))
    assert state == {"pk": {"S": f"C#{tenant}#Jobs"}, "sk": {"S": "C"}, "listed": {"N": "1"}}


def test_listing_is_one_query_and_a_batch_read(faulty: StoreOnFaultyClient, tenant: str) -> None:
    for name in ("One", "Two"):
        faulty.register(tenant, name)
    faulty.faults.plan()
    faulty.list_all_queue_states()
    assert faulty.faults.sent[0] == "query"
    assert set(faulty.faults.sent[1:]) <= {"query", "batch_get_item"}


def test_a_queue_that_is_listed_is_not_written_again(faulty: StoreOnFaultyClient, tenant: str) -> None:
    faulty.register(tenant, "Jobs")
    taken = faulty.take_credits(tenant, "Jobs", CreditRequest(1, 10, NOON))
    faulty.register(tenant, "Jobs")
    assert isinstance(taken, QueueState)
    assert faulty.get_queue_state(tenant, "Jobs") == taken
