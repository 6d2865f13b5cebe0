"""Order numbers of ordered queues: each shard counts its own, in an item under a key of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from millrace.model.errors import StoreUnavailable
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import Item, int_in
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.writes import update

#: Shards that are asked at the same time.
TAKERS = 8


class OrderNumbers:
    """The counters of shards whose entries keep their order."""

    _calls: RetryingClient
    _names: TableNames

    def take_numbers(self, tenant: str, queue: str, counts: Mapping[int, int]) -> dict[int, int]:
        """One write unit for each shard."""
        found: dict[int, int] = {}
        open_ = list(counts.items())

        def take() -> None:
            while open_:
                try:
                    shard, count = open_.pop()
                    found[shard] = self._take(tenant, queue, shard, count)
                except (IndexError, StoreUnavailable):
                    continue

        threads = [threading.Thread(target=take, name="numbers") for _ in range(min(TAKERS, len(counts)) - 1)]
        for thread in threads:
            thread.start()
        take()
        for thread in threads:
            thread.join()
        return found

    def _take(self, tenant: str, queue: str, shard: int, count: int) -> int:
        """The first of so many. Taken twice, because an answer was lost, some are left out: a gap does no harm."""
        write = update(self._names.queue, numbers_key(tenant, queue, shard), adds={"sequence": count})
        answer = self._calls.send("update_item", **write.request(), ReturnValues="ALL_NEW")
        return int_in(answer["Attributes"], "sequence") - count + 1


def numbers_key(tenant: str, queue: str, shard: int) -> Item:
    return {"pk": {"S": f"N#{tenant}#{queue}#{shard}"}, "sk": {"S": "N"}}
