"""Samples of queues in the queue table: an item for each hour of a queue, an attribute for each five minutes.

pk `H#{tenant}#{queue}`, sk the hour. A sample is one write of an item below 1 KB; two weeks are one query of at most
337 items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millrace.model.queue_samples import HOUR, SAMPLE_MS, SAMPLE_TTL_SECONDS, QueueSample
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import value_of
from millrace.stores.dynamodb.items import Item
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.writes import update

#: Behind every hour's sort key.
LAST_HOUR = "9999999"


class QueueSamples:
    """What queues' numbers were."""

    _calls: RetryingClient
    _names: TableNames

    def put_sample(self, tenant: str, queue: str, sample: QueueSample) -> None:
        write = update(self._names.queue, samples_key(tenant, queue, sample.at), None, sets=sample_attributes(sample))
        self._calls.send("update_item", **write.request())

    def read_samples(self, tenant: str, queue: str, since: int) -> list[QueueSample]:
        found: list[QueueSample] = []
        after: str | None = _hour(since - HOUR)
        while after is not None:
            pk = samples_key(tenant, queue, 0)["pk"]["S"]
            items, after = self._calls.query_between(self._names.queue, pk, after, LAST_HOUR, 1_000)
            found += [sample for item in items for sample in samples_of(item)]
        return [sample for sample in found if sample.at >= since]


def _hour(at: int) -> str:
    return f"{max(0, at) // HOUR:07d}"


def samples_key(tenant: str, queue: str, at: int) -> Item:
    return {"pk": {"S": f"H#{tenant}#{queue}"}, "sk": {"S": _hour(at)}}


def sample_attributes(sample: QueueSample) -> Item:
    numbers = (sample.depth, sample.oldest_age_ms, sample.arrived, sample.done, sample.failed, sample.dead)
    text = "/".join(map(str, (sample.at % HOUR, *numbers)))
    return {
        f"s{sample.at % HOUR // SAMPLE_MS:02d}": value_of(text),
        "ttl": value_of(sample.at // 1000 + SAMPLE_TTL_SECONDS),
    }


def samples_of(item: Mapping[str, Any]) -> Iterator[QueueSample]:
    """The samples of an hour, in order."""
    began = int(item["sk"]["S"]) * HOUR
    for name in sorted(name for name in item if name[0] == "s" and name[1:].isdigit()):
        after, *numbers = map(int, item[name]["S"].split("/"))
        yield QueueSample(began + after, *numbers)
