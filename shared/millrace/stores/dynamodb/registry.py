"""Which queues there are, for the sweep: a small item for each that is in use, all in one partition.

Their states lie under keys of their own, since one partition could not carry the counters of every queue. A state says
whether its queue is listed, and both change in one transaction, so that neither can be without the other.
"""

from __future__ import annotations

from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import QueueState
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import PRESENT, counter_is, has, missing, value_of
from millrace.stores.dynamodb.counters import LISTED, queue_state_key, queue_state_of
from millrace.stores.dynamodb.items import Item
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import delete, put, send_transaction, update

QUEUES = "QUEUES"


class Registry:
    """The list of queues in use."""

    _calls: RetryingClient
    _names: TableNames

    def list_all_queue_states(self) -> list[QueueState]:
        """One query for the names, one batch read for each hundred of them."""
        table = self._names.queue
        names = [_owner_of(item) for item in self._calls.query_all(table, QUEUES)]
        keys = {name: queue_state_key(*name) for name in names}
        items = {item["pk"]["S"]: item for item in self._calls.read_all(table, list(keys.values()))}
        return [queue_state_of(items.get(key["pk"]["S"], {}), *name) for name, key in keys.items()]

    def register(self, tenant: str, queue: str) -> None:
        """Four write units, once for a queue that begins to be used. Raises StoreUnavailable."""
        table, unlisted = self._names.queue, missing(LISTED)
        state = update(table, queue_state_key(tenant, queue), unlisted, sets={LISTED: value_of(1)})
        try:
            send_transaction(
                self._calls, [put(table, registry_key(tenant, queue)).in_transaction(), state.in_transaction()]
            )
        except ConditionFailed:
            return  # it is listed already

    def unregister(self, seen: QueueState) -> bool:
        """What breaks without the conditions: a message that came meanwhile would be hidden from the sweep."""
        table, key = self._names.queue, queue_state_key(seen.tenant, seen.queue)
        nothing_held = counter_is("depth", 0)
        nothing_since = counter_is("moved", seen.moved_at)
        state = update(table, key, has(LISTED) & nothing_held & nothing_since, removes=[LISTED])
        entry = delete(table, registry_key(seen.tenant, seen.queue), PRESENT)
        try:
            send_transaction(self._calls, [entry.in_transaction(), state.in_transaction()])
        except (ConditionFailed, StoreUnavailable):
            return False
        return True


def registry_key(tenant: str, queue: str) -> Item:
    return {"pk": {"S": QUEUES}, "sk": {"S": f"{tenant}#{queue}"}}


def _owner_of(item: Item) -> tuple[str, str]:
    tenant, queue = item["sk"]["S"].split("#", 1)
    return tenant, queue
