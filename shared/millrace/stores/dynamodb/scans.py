"""Reading a whole table, a segment at a time: for the queue as data, never on the way of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.retrying_client import RetryingClient

#: A page of a scan is at most 1 MB, which eventually consistent is this many read units.
PAGE_UNITS = 128


class Pace(Protocol):
    """What holds a reader back."""

    def take(self, units: float) -> None: ...

    def correct(self, units: float) -> None: ...


def scan_segment(calls: RetryingClient, table: str, segment: int, segments: int, pace: Pace) -> Iterator[list[Item]]:
    """Every item of one of the table's segments, page by page; eventually consistent, at half the price.

    A page waits for the pace with what the last one cost, and is corrected by what DynamoDB says that it charged. No
    snapshot: an item that is written meanwhile may be seen before or after, and one that moves not at all.
    """
    start: dict[str, Any] = {}
    units = 1.0
    while True:
        pace.take(units)
        answer = calls.send(
            "scan",
            TableName=table,
            Segment=segment,
            TotalSegments=segments,
            Limit=1_000,
            ReturnConsumedCapacity="TOTAL",
            **start,
        )
        charged = float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", units))
        pace.correct(charged - units)
        units = min(max(charged, 1.0), PAGE_UNITS)
        yield answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
