"""Strongly consistent reads of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.retrying_client import RetryingClient

#: Sorts right behind a key, before every longer one that begins with it: no key holds control characters.
JUST_AFTER = "\x01"


def get_item(calls: RetryingClient, table: str, key: Item) -> Item | None:
    found: Item | None = calls.send("get_item", TableName=table, Key=key, ConsistentRead=True).get("Item")
    return found


def query_range(
    calls: RetryingClient, table: str, pk: str, after: str, upto: str, limit: int, *, newest_first: bool = False
) -> tuple[list[Item], str | None]:
    """Up to `limit` items with `after` < sk <= `upto`, and the sort key after which the query goes on."""
    if after >= upto:
        return [], None
    answer = calls.send(
        "query",
        TableName=table,
        KeyConditionExpression="pk = :pk AND sk BETWEEN :after AND :upto",
        ExpressionAttributeValues={":pk": {"S": pk}, ":after": {"S": after + JUST_AFTER}, ":upto": {"S": upto}},
        ConsistentRead=True,
        ScanIndexForward=not newest_first,
        Limit=limit,
    )
    last = answer.get("LastEvaluatedKey")
    return answer["Items"], last["sk"]["S"] if last else None


def query_between(
    calls: RetryingClient, table: str, pk: str, after: str, before: str, limit: int, *, newest_first: bool = False
) -> tuple[list[Item], str | None]:
    """The same with `after` < sk < `before`. One more is read, since the upper bound itself may come along."""
    items, last = query_range(calls, table, pk, after, before, limit + 1, newest_first=newest_first)
    found = [item for item in items if item["sk"]["S"] != before]
    more = len(found) > limit or last is not None
    return found[:limit], found[:limit][-1]["sk"]["S"] if more and found else None


def query_all(calls: RetryingClient, table: str, pk: str, prefix: str = "") -> list[Item]:
    """Every item of a partition, or of those whose sort keys begin with `prefix`."""
    condition, values = "pk = :pk", {":pk": {"S": pk}}
    if prefix:
        condition, values[":prefix"] = "pk = :pk AND begins_with(sk, :prefix)", {"S": prefix}
    found: list[Item] = []
    start: dict[str, Any] = {}
    while True:
        answer = calls.send(
            "query",
            TableName=table,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            ConsistentRead=True,
            **start,
        )
        found += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return found
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
