"""The order in which messages arrive, as a part of their entries' sort keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from millrace.model.keys import sequence_order, shard_of

if TYPE_CHECKING:
    from millrace.engine.drafts import Checked
    from millrace.engine.queue import Queue

T = TypeVar("T")


def order_of_arrival(queue: Queue, items: Mapping[T, Checked]) -> dict[T, str]:
    """What each of these is sorted by: in an ordered queue a number of its shard, above those of all accepted before.

    Empty where no number was to be had. One write unit for each shard of an ordered queue, else none.
    """
    spec = queue.spec
    if not spec.ordering.ordered:
        return dict(zip(items, queue.runtime.orders.take(len(items)), strict=True))
    shards = {name: shard_of(spec, item.draft.key, item.id) for name, item in items.items()}
    first = queue.store.take_numbers(queue.tenant, spec.name, Counter(shards.values())) if items else {}
    given: Counter[int] = Counter()
    orders = {}
    for name, shard in shards.items():
        orders[name] = sequence_order(first[shard] + given[shard]) if shard in first else ""
        given[shard] += 1
    return orders
