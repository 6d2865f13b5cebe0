"""Reading a whole table, a segment at a time: for the queue as data, never on the way of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from millrace.model.cursor import Page
from millrace.stores.dynamodb.items import MESSAGE, text_in
from millrace.stores.interface import MessageOwner

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import TableNames
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.retrying_client import RetryingClient

#: What a scan for a tenant's messages may see of the table's items: never the attributes of tokens or of the claim key.
SCANNED = ("pk", "sk", "tenant", "queue", "key", "project")
#: A page of a scan is at most 1 MB, which eventually consistent is this many read units.
PAGE_UNITS = 128


class Pace(Protocol):
    """What holds a reader back."""

    def take(self, units: float) -> None: ...

    def correct(self, units: float) -> None: ...


class MessageScan:
    """Looking for a tenant's messages in all of the queue table."""

    _calls: RetryingClient
    _names: TableNames

    def scan_messages(self, tenant: str, after: str, limit: int) -> Page[MessageOwner]:
        """Strongly consistent: a read unit for each 4 KB of what is stored. Names its attributes, as the role asks."""
        names = {f"#{name}": name for name in SCANNED}
        request: dict[str, Any] = {
            "TableName": self._names.queue,
            "Limit": limit,
            "ConsistentRead": True,
            "Select": "SPECIFIC_ATTRIBUTES",
            "ProjectionExpression": ", ".join(names),
            "FilterExpression": "#sk = :message AND #tenant = :tenant",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {":message": {"S": MESSAGE}, ":tenant": {"S": tenant}},
        }
        if after:
            pk, _, sk = after.partition("\n")
            request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": sk}}
        answer = self._calls.send("scan", **request)
        last = answer.get("LastEvaluatedKey")
        return Page(tuple(map(_owner_of, answer["Items"])), f"{last['pk']['S']}\n{last['sk']['S']}" if last else None)


def _owner_of(item: Item) -> MessageOwner:
    message_id = item["pk"]["S"].removeprefix("M#")
    return MessageOwner(message_id, item["queue"]["S"], text_in(item, "key"), text_in(item, "project"))


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
