"""Reading a whole table, a segment at a time: for the queue as data, never on the way of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from millrace.model.keys import WITHDRAWN, partition
from millrace.model.message import Place
from millrace.stores.dynamodb.items import MESSAGE, int_in, message_key, number, text_in
from millrace.stores.scanned import EVERY_MESSAGE, ScanFilter, ScannedMessage, ScannedPage

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import TableNames
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.retrying_client import RetryingClient

#: What a scan for a tenant's messages may see of the table's items: never the attributes of tokens or of the claim key.
SCANNED = ("pk", "sk", "tenant", "queue", "key", "project", "corr", "at", "nonce", "shard", "place")
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

    def scan_messages(self, tenant: str, after: str, limit: int, only: ScanFilter = EVERY_MESSAGE) -> ScannedPage:
        """Strongly consistent: a read unit for each 4 KB of what is stored. Names its attributes, as the role asks."""
        names = {f"#{name}": name for name in SCANNED}
        held = ["#sk = :message", "#tenant = :tenant", "#place <> :withdrawn", "#at BETWEEN :from AND :upto"]
        values = {
            ":message": {"S": MESSAGE},
            ":tenant": {"S": tenant},
            ":withdrawn": {"S": WITHDRAWN},
            ":from": number(only.received_from),
            ":upto": number(only.received_before - 1),
        }
        if only.queue:
            held.append("#queue = :queue")
            values[":queue"] = {"S": only.queue}
        request: dict[str, Any] = {
            "TableName": self._names.queue,
            "Limit": limit,
            "ConsistentRead": True,
            "Select": "SPECIFIC_ATTRIBUTES",
            "ProjectionExpression": ", ".join(names),
            "FilterExpression": " AND ".join(held),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if after:
            pk, _, sk = after.partition("\n")
            request["ExclusiveStartKey"] = {"pk": {"S": pk}, "sk": {"S": sk}}
        answer = self._calls.send("scan", **request)
        last = answer.get("LastEvaluatedKey")
        units = float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", PAGE_UNITS))
        return ScannedPage(tuple(map(_scanned, answer["Items"])), _position(last) if last else None, units)


def _position(key: Item) -> str:
    return f"{key['pk']['S']}\n{key['sk']['S']}"


def _scanned(item: Item) -> ScannedMessage:
    message_id, queue = item["pk"]["S"].removeprefix("M#"), item["queue"]["S"]
    return ScannedMessage(
        message_id,
        queue,
        nonce=item["nonce"]["S"],
        place=Place(partition(item["tenant"]["S"], queue, int_in(item, "shard")), item["place"]["S"]),
        received_at=int_in(item, "at"),
        position=_position(message_key(message_id, MESSAGE)),
        key=text_in(item, "key"),
        project=text_in(item, "project"),
        correlation_id=text_in(item, "corr"),
    )


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
