"""The audit log in the queue table: pk `AUDIT#tenant`, sk time and id. Kept for a year."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from millrace.model.audit import STARTED, AuditEvent
from millrace.model.cursor import Page
from millrace.stores.dynamodb.conditions import ABSENT, PRESENT, equal, value_of
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import put, update

if TYPE_CHECKING:
    from millrace.model.audit import AuditLog
    from millrace.stores.dynamodb.client import AnyClient
    from millrace.stores.dynamodb.items import Item

_NUMBERS = ("at", "ttl", "ended_at")


class DynamoAuditLog:
    """Audit events of one deployment: one write before a change, one after it."""

    def __init__(self, client: AnyClient, table: str, *, calls: RetryingClient | None = None) -> None:
        self._calls = calls or RetryingClient(client)
        self._table = table

    def begin(self, event: AuditEvent) -> None:
        try:
            self._calls.send("put_item", **put(self._table, audit_event_item(event), ABSENT).request())
        except ConditionFailed as refusal:
            if not refusal.after_no_answer:
                raise

    def end(self, event: AuditEvent) -> bool:
        sets = {name: value_of(getattr(event, name)) for name in ("outcome", "result", "ended_at")}
        still_open = equal("outcome", STARTED)
        write = update(self._table, _key(event.tenant, event.sk), still_open, sets=sets)
        try:
            self._calls.send("update_item", **write.request())
        except ConditionFailed as refusal:
            return refusal.after_no_answer
        return True

    def redact(self, event: AuditEvent) -> None:
        sets = {name: value_of(getattr(event, name)) for name in ("detail", "subject")}
        with suppress(ConditionFailed):  # its time is over
            write = update(self._table, _key(event.tenant, event.sk), PRESENT, sets=sets)
            self._calls.send("update_item", **write.request())

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[AuditEvent]:
        pk = f"AUDIT#{tenant}"
        items, last = self._calls.query_between(self._table, pk, after, before, limit, newest_first=True)
        return Page(tuple(map(audit_event_of, items)), last)


def _key(tenant: str, sk: str) -> Item:
    return {"pk": {"S": f"AUDIT#{tenant}"}, "sk": {"S": sk}}


def audit_event_item(event: AuditEvent) -> Item:
    written = {field.name: getattr(event, field.name) for field in fields(event)}
    return {**_key(event.tenant, event.sk), **{name: value_of(value) for name, value in written.items()}}


def audit_event_of(item: Mapping[str, Any]) -> AuditEvent:
    read = {field.name: next(iter(item[field.name].values())) for field in fields(AuditEvent)}
    return AuditEvent(**{**read, **{name: int(read[name]) for name in _NUMBERS}})


if TYPE_CHECKING:

    def _keeps_the_interface(audit_log: DynamoAuditLog) -> AuditLog:
        return audit_log
