"""The typed message: what definitions call `payload`, `headers`, `source_ip` and `received_at`.

    webhook      its body is the payload; the rest is what the ingress saw of the call
    everyone     their body is the whole message as JSON: a producer's post, a bulk row, a chained message;
    else         only bytes that are not called JSON are the payload, where the type says `payload: bytes`

Admission makes it to validate, filter and find keys; the worker makes it again from what was stored, to render a
mapping. Both go through here, so both see the same message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from millrace.model.errors import InvalidMessage
from millrace.model.message import Draft, Message
from millrace.model.strict_json import parse

if TYPE_CHECKING:
    from millrace.definitions.message_type import Field, RecordType

#: `source` of a message that a webhook brought begins with this; its name follows.
WEBHOOK = "webhook:"
#: Kept among the headers of a webhook's message. No sender can send it: a header's name has no colon.
SOURCE_IP = ":source-ip"
FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 2_000

#: Gives the body as JSON; ValueError where it is none.
ParseBody = Callable[[], Any]


def typed_message(message_type: RecordType | None, message: Message, body: bytes) -> dict[str, Any]:
    """The typed form of a stored message. Raises InvalidMessage for a body that cannot be read as its type asks."""
    if message_type is None:
        raise InvalidMessage([("message", "a message_type, where there is something to render", "none")])
    return _typed(message_type, message, body, message.received_at, lambda: parse(body))


def typed_draft(
    message_type: RecordType, draft: Draft, received_at: int, document: ParseBody | None = None
) -> dict[str, Any]:
    """The typed form of a draft, checked against its type.

    Raises InvalidMessage with the path of every problem. `document` spares a second parse where the body was read
    before.
    """
    typed = _typed(message_type, draft, draft.body, received_at, document or (lambda: parse(draft.body)))
    problems = message_type.validate(typed)
    if problems:
        raise InvalidMessage([(problem.path, problem.expected, problem.found) for problem in problems])
    return typed


def _typed(
    message_type: RecordType, source: Draft | Message, body: bytes, received_at: int, document: ParseBody
) -> dict[str, Any]:
    fields = message_type.fields
    if not (source.source.startswith(WEBHOOK) or _bare_bytes(fields, source.content_type)):
        found = _read("message", document)
        if not isinstance(found, dict):
            raise InvalidMessage([("message", message_type.describe(), "no object")])
        return found
    typed: dict[str, Any] = {}
    if "payload" in fields:
        typed["payload"] = _payload(fields["payload"].type.written(), source.content_type, body, document)
    if "headers" in fields:
        typed["headers"] = {name: value for name, value in source.headers.items() if not name.startswith(":")}
    if "source_ip" in fields:
        typed["source_ip"] = source.headers.get(SOURCE_IP, "")
    if "received_at" in fields:
        moment = datetime.fromtimestamp(received_at / 1000, UTC)
        typed["received_at"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return typed


def _bare_bytes(fields: Mapping[str, Field], content_type: str) -> bool:
    if "payload" not in fields or fields["payload"].type.written() != "bytes":
        return False
    media_type = _media_type(content_type)
    return media_type != "application/json" and not media_type.endswith("+json")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _payload(kind: Any, content_type: str, body: bytes, document: ParseBody) -> Any:
    """The body as its type reads it: base64, text, a form's fields by name, or JSON."""
    if kind == "bytes":
        return base64.b64encode(body).decode("ascii")
    if kind == "string":
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidMessage([("payload", "a string", "bytes that are not UTF-8")]) from None
    if _media_type(content_type) == FORM_TYPE:
        return _form(body)
    return _read("payload", document)


def _read(path: str, document: ParseBody) -> Any:
    try:
        return document()
    except ValueError as exc:
        raise InvalidMessage([(path, "JSON", str(exc))]) from None


def _form(body: bytes) -> dict[str, Any]:
    """A form's fields: a text for each name, a list where a name is repeated."""
    from urllib.parse import parse_qsl

    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise InvalidMessage([("payload", f"a form of at most {MAX_FORM_FIELDS} fields", "something else")]) from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields
