"""Messages, entries and results as answers show them, and the schemas that describe them."""

from __future__ import annotations

import base64
import json
from typing import Any

from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus, MessageView
from millrace.http.fields import Schema, parse_json, rfc3339
from millrace.model.errors import InvalidRequest
from millrace.model.message import Attempt, DeadLetter, Entry, Message

JsonObject = dict[str, Any]


def text(meaning: str = "", *, null: bool = False) -> Schema:
    return _schema("string", meaning, null=null)


def number(meaning: str = "", *, null: bool = False) -> Schema:
    return _schema("integer", meaning, null=null)


def time(meaning: str = "", *, null: bool = False) -> Schema:
    return {**_schema("string", meaning, null=null), "format": "date-time"}


def record(members: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def page_of(name: str, item: Schema) -> Schema:
    return record({name: {"type": "array", "items": item}, "next": text("Cursor of the next page.", null=True)})


def _schema(kind: str, meaning: str, *, null: bool) -> Schema:
    schema: Schema = {"type": [kind, "null"] if null else kind}
    return {**schema, "description": meaning} if meaning else schema


def show_bytes(name: str, data: bytes | None, *, as_json: bool = True) -> JsonObject:
    """Bytes under `name` where they are JSON, else exactly under `name_base64`."""
    if data is None:
        return {}
    if as_json:
        try:
            return {name: parse_json(data)}
        except InvalidRequest:
            pass
    return {f"{name}_base64": base64.b64encode(data).decode()}


def bytes_schemas(name: str, meaning: str) -> dict[str, Schema]:
    return {
        name: {"description": f"{meaning}, where it is JSON."},
        f"{name}_base64": {"type": "string", "contentEncoding": "base64", "description": f"{meaning}, exact bytes."},
    }


def as_bytes(body: dict[str, Any] | Any, name: str) -> bytes | None:
    """What a request gave under `name` (JSON) or `name_base64` (bytes)."""
    if name in body:
        return json.dumps(body[name], ensure_ascii=False, separators=(",", ":")).encode()
    given: bytes | None = body.get(f"{name}_base64")
    return given


RECEIPT = record(
    {
        "message_id": text(),
        "correlation_id": text(),
        "idempotency_key": text("Empty where none was given."),
        "duplicate": {"type": "boolean", "description": "The key was there before: this is that message."},
        "status": {"type": "string", "enum": list(MessageStatus)},
        **bytes_schemas("result", "What the finished message gave"),
    },
    optional=("result", "result_base64"),
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
    "due_at": time("Not to be claimed before this.", null=True),
    "priority": number(),
    "key": text(),
    "project": text(),
    "labels": {"type": "array", "items": {"type": "string"}},
    "correlation_id": text(),
    "attempts": number("Runs that failed, or whose worker died."),
    "deliveries": number("Claims, whatever came of them."),
    "version": number("Of the newest claim."),
    "owner": text("Who holds it; empty for nobody."),
    "claimed_at": time(null=True),
    "lease_until": time(null=True),
}
ENTRY = record(ENTRY_MEMBERS)


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
        "received_at": rfc3339(message.received_at),
        "idempotency_key": message.idempotency_key,
        "source": message.source,
        "origin": message.origin,
    }


ATTEMPT = record(
    {
        "number": number(),
        "version": number(),
        "owner": text(),
        "started_at": time(null=True),
        "ended_at": time(null=True),
        "error_type": text(),
        "error": text(),
    }
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


STATUS = record(
    {
        "message_id": text(),
        "queue": text(),
        "status": {"type": "string", "enum": list(MessageStatus)},
        "correlation_id": text(),
        **MESSAGE_MEMBERS,
        "entry": {"anyOf": [ENTRY, {"type": "null"}]},
        "history": {"type": "array", "items": ATTEMPT},
        "finished_at": time(null=True),
        "dead_letter": text("Id of its dead letter.", null=True),
        **bytes_schemas("result", "What it gave"),
    },
    optional=("result", "result_base64"),
)


def show_status(found: MessageView) -> JsonObject:
    result = found.result
    return {
        "message_id": found.message.id,
        "queue": found.message.queue,
        "status": found.status.value,
        "correlation_id": found.message.correlation_id,
        **show_message(found.message),
        "entry": show_entry(found.entry) if found.entry else None,
        "history": [show_attempt(attempt) for attempt in found.history],
        "finished_at": rfc3339(result.finished_at) if result else None,
        "dead_letter": dead_letter_id(found.dead_letter) if found.dead_letter else None,
        **show_bytes("result", (result.snapshot or None) if result else None),
    }


LETTER_MEMBERS: dict[str, Schema] = {
    "id": text(),
    "message_id": text(),
    "correlation_id": text(),
    **MESSAGE_MEMBERS,
    "failed_at": time(),
    "reason": {"type": "string", "enum": ["exhausted", "expired", "rejected"]},
    "error_type": text(),
    "error": text(),
    "attempts": number(),
    "deliveries": number(),
    "priority": number(),
    "key": text(),
    "project": text(),
    "labels": {"type": "array", "items": {"type": "string"}},
    "replayed_at": time(null=True),
    "replayed_as": text(null=True),
}
LETTER = record(LETTER_MEMBERS)


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
        "replayed_at": rfc3339(dead_letter.replayed_at),
        "replayed_as": dead_letter.replayed_as or None,
    }
