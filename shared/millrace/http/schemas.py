"""Messages, entries and results as answers show them, and the schemas that describe them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus
from millrace.http.bodies import bytes_schemas, show_bytes
from millrace.http.fields import Kind, Schema, Text, Whole, rfc3339
from millrace.http.problems import PROBLEM
from millrace.http.response import HttpResponse
from millrace.model.cursor import MAX_PAGE, Page
from millrace.model.message import Attempt, DeadLetter, DeadLetterReason, Entry, Message

JsonObject = dict[str, Any]
#: Of messages and jobs. Asked for anything else, the table would fail instead of finding nothing.
MESSAGE_ID = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
T = TypeVar("T")
PAGE: Mapping[str, Kind] = {
    "limit": Whole(1, MAX_PAGE, "Items on the page; 50 unless given."),
    "cursor": Text(2_048, 1, meaning="The `next` of the page before."),
}
#: Makes a request safe to repeat.
REQUEST_KEY: Mapping[str, Kind] = {
    "Idempotency-Key": Text(500, 1, r"[^\x00-\x1f]+", meaning="Names the request: repeating it has no second effect.")
}


def text(meaning: str = "", *, null: bool = False) -> Schema:
    return _schema("string", meaning, null=null)


def number(meaning: str = "", *, null: bool = False) -> Schema:
    return _schema("integer", meaning, null=null)


def time(meaning: str = "", *, null: bool = False) -> Schema:
    return {**_schema("string", meaning, null=null), "format": "date-time"}


def flag(meaning: str = "") -> Schema:
    return _schema("boolean", meaning, null=False)


def list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def words(name: str, values: type[Any] | tuple[str, ...]) -> Schema:
    """One of these words, under a name of its own."""
    return {"type": "string", "enum": [str(value) for value in values], "title": name}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def record(
    name: str, members: Mapping[str, Schema], optional: tuple[str, ...] = (), example: JsonObject | None = None
) -> Schema:
    """An object, under a name of its own in the OpenAPI document."""
    required = [member for member in members if member not in optional]
    schema: Schema = {"type": "object", "title": name, "properties": dict(members), "required": required}
    return {**schema, "additionalProperties": False, **({"examples": [example]} if example else {})}


def page_of(name: str, member: str, item: Schema) -> Schema:
    return record(name, {member: list_of(item), "next": text("Cursor of the next page; null at the end.", null=True)})


def show_page(member: str, page: Page[T], show: Callable[[T], JsonObject]) -> HttpResponse:
    """A page of a list, as `page_of` describes it."""
    return HttpResponse(200, {member: [show(item) for item in page.items], "next": page.next})


def _schema(kind: str, meaning: str, *, null: bool) -> Schema:
    schema: Schema = {"type": [kind, "null"] if null else kind}
    return {**schema, "description": meaning} if meaning else schema


def items_of(name: str, members: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """The answer to a batch: for each item what it would have been alone."""
    item = record(f"{name}Item", {"http_status": number(), **members}, optional)
    return record(f"{name}Items", {"items": list_of({"anyOf": [item, REFUSED_ITEM]})})


OK = record("Ok", {"ok": flag()}, example={"ok": True})
REFUSED_ITEM = record("RefusedItem", {"http_status": number(), "problem": PROBLEM})
STATUS = words("MessageStatus", MessageStatus)
LABELS = list_of(text())
RECEIPT = record(
    "Receipt",
    {
        "message_id": text(),
        "correlation_id": text(),
        "idempotency_key": text("Empty where none was given."),
        "duplicate": flag("The idempotency key is known: this is the message that came first."),
        "status": STATUS,
        **bytes_schemas("result", "The result of the finished message"),
    },
    optional=("result", "result_base64"),
    example={
        "message_id": "0198c2f06d5e7c7aa1c2d3e4f5a6b7c8",
        "correlation_id": "order-4711",
        "idempotency_key": "order-4711",
        "duplicate": False,
        "status": "ready",
    },
)


def show_receipt(receipt: Receipt) -> JsonObject:
    return {
        "message_id": receipt.message_id,
        "correlation_id": receipt.correlation_id,
        "idempotency_key": receipt.idempotency_key,
        "duplicate": receipt.duplicate,
        "status": receipt.status.value,
        **show_bytes("result", receipt.result or None),
    }


ENTRY_MEMBERS: dict[str, Schema] = {
    "message_id": text(),
    "enqueued_at": time(),
    "expires_at": time(null=True),
    "due_at": time("Not handed out before this time.", null=True),
    "priority": number(),
    "key": text(),
    "project": text(),
    "labels": LABELS,
    "correlation_id": text(),
    "attempts": number("Runs that failed, or whose worker died."),
    "deliveries": number("How often it was claimed."),
    "version": number("Version of the newest claim."),
    "owner": text("Who holds it; empty where nobody does."),
    "claimed_at": time(null=True),
    "lease_until": time(null=True),
}
ENTRY = record("Entry", ENTRY_MEMBERS)


def show_entry(entry: Entry) -> JsonObject:
    return {
        "message_id": entry.id,
        "enqueued_at": rfc3339(entry.enqueued_at),
        "expires_at": rfc3339(entry.expires_at),
        "due_at": rfc3339(entry.due),
        "priority": entry.priority,
        "key": entry.key,
        "project": entry.project,
        "labels": list(entry.labels),
        "correlation_id": entry.correlation_id,
        "attempts": entry.attempts,
        "deliveries": entry.deliveries,
        "version": entry.version,
        "owner": entry.owner,
        "claimed_at": rfc3339(entry.since),
        "lease_until": rfc3339(entry.until),
    }


MESSAGE_MEMBERS: dict[str, Schema] = {
    "content_type": text(),
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    "size": number("Bytes of the body."),
    "encrypted": flag("The body is stored encrypted, under the queue's own KMS key."),
    "received_at": time(),
    "idempotency_key": text(),
    "source": text(),
    "origin": text("The message that this one was replayed or chained from."),
}


def show_message(message: Message) -> JsonObject:
    return {
        "content_type": message.content_type,
        "headers": dict(message.headers),
        "size": message.body.size,
        "encrypted": message.body.encrypted,
        "received_at": rfc3339(message.received_at),
        "idempotency_key": message.idempotency_key,
        "source": message.source,
        "origin": message.origin,
    }


ATTEMPT = record(
    "Attempt",
    {
        "number": number(),
        "version": number(),
        "owner": text(),
        "started_at": time(null=True),
        "ended_at": time(null=True),
        "error_type": text(),
        "error": text(),
    },
)


def show_attempt(attempt: Attempt) -> JsonObject:
    return {
        "number": attempt.number,
        "version": attempt.version,
        "owner": attempt.owner,
        "started_at": rfc3339(attempt.started_at),
        "ended_at": rfc3339(attempt.ended_at),
        "error_type": attempt.error_type,
        "error": attempt.error,
    }


DEAD_LETTER_MEMBERS: dict[str, Schema] = {
    "id": text(),
    "message_id": text(),
    "correlation_id": text(),
    **MESSAGE_MEMBERS,
    "failed_at": time(),
    "reason": words("DeadLetterReason", DeadLetterReason),
    "error_type": text(),
    "error": text(),
    "attempts": number(),
    "deliveries": number(),
    "priority": number(),
    "key": text(),
    "project": text(),
    "labels": LABELS,
    "fingerprint": text("The group of its error: the same for errors that differ in ids, numbers and quoted values."),
    "replayed_at": time(null=True),
    "replayed_as": text("Id of the newest message that it was replayed as.", null=True),
}
DEAD_LETTER = record("DeadLetter", DEAD_LETTER_MEMBERS)


def dead_letter_id(sk: str) -> str:
    """A dead letter's id as answers show it: fit for a path without escaping."""
    return sk.replace("#", ".")


def show_dead_letter(dead_letter: DeadLetter) -> JsonObject:
    return {
        "id": dead_letter_id(dead_letter.sk),
        "message_id": dead_letter.message.id,
        "correlation_id": dead_letter.message.correlation_id,
        **show_message(dead_letter.message),
        "failed_at": rfc3339(dead_letter.failed_at),
        "reason": dead_letter.reason.value,
        "error_type": dead_letter.error_type,
        "error": dead_letter.error,
        "attempts": dead_letter.attempts,
        "deliveries": dead_letter.deliveries,
        "priority": dead_letter.priority,
        "key": dead_letter.key,
        "project": dead_letter.project,
        "labels": list(dead_letter.labels),
        "fingerprint": dead_letter.fingerprint,
        "replayed_at": rfc3339(dead_letter.replayed_at),
        "replayed_as": dead_letter.replayed_as or None,
    }
