"""Order numbers of ordered queues: each shard counts its own, in an item under a key of its own."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.model.errors import StoreUnavailable
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import Item, int_in
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.side_by_side import side_by_side
from millrace.stores.dynamodb.writes import update


class OrderNumbers:
    """The counters of shards whose entries keep their order."""

    _calls: RetryingClient
    _names: TableNames

    def take_numbers(self, tenant: str, queue: str, counts: Mapping[int, int]) -> dict[int, int]:
        """One write unit for each shard."""
        found = side_by_side(lambda pair: self._take(tenant, queue, *pair), list(counts.items()))
        return {shard: first for shard, first in zip(counts, found, strict=True) if first}

    def _take(self, tenant: str, queue: str, shard: int, count: int) -> int:
        """The first of so many; 0 where no answer came. Those taken twice are left out: a gap does no harm."""
        write = update(self._names.queue, numbers_key(tenant, queue, shard), adds={"sequence": count})
        try:
            answer = self._calls.send("update_item", **write.request(), ReturnValues="ALL_NEW")
        except StoreUnavailable:
            return 0
        return int_in(answer["Attributes"], "sequence") - count + 1


def numbers_key(tenant: str, queue: str, shard: int) -> Item:
    return {"pk": {"S": f"N#{tenant}#{queue}#{shard}"}, "sk": {"S": "N"}}
