"""The audit trail in the queue table: pk `AUDIT#tenant`, sk time and id. Kept for a year."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from millrace.model.audit import STARTED, AuditEvent
from millrace.model.cursor import Page
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.model.audit import AuditLog
    from millrace.stores.dynamodb.items import Item

_NUMBERS = ("at", "ttl", "ended_at")


class DynamoAuditLog:
    """Deeds of one deployment: one write before a change, one after it."""

    def __init__(self, client: DynamoDBClient, table: str, *, calls: RetryingClient | None = None) -> None:
        self._calls = calls or RetryingClient(client)
        self._table = table

    def begin(self, event: AuditEvent) -> None:
        try:
            self._calls.send(
                "put_item", TableName=self._table, Item=_item(event), ConditionExpression="attribute_not_exists(pk)"
            )
        except ConditionFailed as refusal:
            if not refusal.after_no_answer:
                raise

    def end(self, event: AuditEvent) -> bool:
        try:
            self._calls.send(
                "update_item",
                TableName=self._table,
                Key=_key(event.tenant, event.sk),
                UpdateExpression="SET #outcome = :outcome, #result = :result, #ended_at = :ended_at",
                ConditionExpression="#outcome = :started",
                ExpressionAttributeNames={f"#{name}": name for name in ("outcome", "result", "ended_at")},
                ExpressionAttributeValues={
                    ":outcome": {"S": event.outcome},
                    ":result": {"S": event.result},
                    ":ended_at": {"N": str(event.ended_at)},
                    ":started": {"S": STARTED},
                },
            )
        except ConditionFailed as refusal:
            return refusal.after_no_answer
        return True

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[AuditEvent]:
        if after >= before:
            return Page((), None)
        answer = self._calls.send(
            "query",
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :after AND :before",
            ExpressionAttributeValues={
                ":pk": {"S": f"AUDIT#{tenant}"},
                ":after": {"S": after},
                ":before": {"S": before},
            },
            ConsistentRead=True,
            ScanIndexForward=False,
            Limit=limit + 2,
        )
        found = [item for item in answer["Items"] if item["sk"]["S"] not in (after, before)]
        events = tuple(_event(item) for item in found[:limit])
        more = len(found) > limit or "LastEvaluatedKey" in answer
        return Page(events, events[-1].sk if more and events else None)


def _key(tenant: str, sk: str) -> Item:
    return {"pk": {"S": f"AUDIT#{tenant}"}, "sk": {"S": sk}}


def _item(event: AuditEvent) -> Item:
    written = {field.name: getattr(event, field.name) for field in fields(event)}
    values = {name: {"N": str(value)} if name in _NUMBERS else {"S": value} for name, value in written.items()}
    return {**_key(event.tenant, event.sk), **values}


def _event(item: Mapping[str, Any]) -> AuditEvent:
    read = {field.name: next(iter(item[field.name].values())) for field in fields(AuditEvent)}
    return AuditEvent(**{**read, **{name: int(read[name]) for name in _NUMBERS}})


if TYPE_CHECKING:

    def _keeps_the_interface(audit_log: DynamoAuditLog) -> AuditLog:
        return audit_log
