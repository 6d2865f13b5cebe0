"""The one rule for what comes in: webhooks, API posts, chained messages and Spark rows all pass here.

                      an expression of the definition yields it      the sender names it outright
    ordering key      never costs a message: too long or odd → its   checked, and refused with what is allowed
                      hash, missing → the group `(none)`
    idempotency key   the same; missing → the fallback               wins over the expression; checked

The fallback is what the entry itself knows: a provider's delivery id, the request's `Idempotency-Key`, a chain's own
key, the hash of a row's content. A declared type is always enforced; a queue without one takes any bytes. What the
filter leaves out is recorded as `filtered` and never queued; a filter that fails lets the message in.

Definitions see a typed message: `payload`, `headers`, `source_ip` and `received_at`.

    webhook      its body is the payload; the rest is what the ingress saw of the call
    everyone     their body is the whole message as JSON: a producer's post, a bulk row, a chained message;
    else         only bytes that are not called JSON are the payload, where the type says `payload: bytes`

Admission makes it to validate, filter and find keys; the worker makes it again from what was stored, to render a
mapping. Both go through here, so both see the same message.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from millrace.definitions import QueueDefinition
from millrace.definitions.model import NO_KEY
from millrace.engine.drafts import IDEMPOTENCY_KEY_BYTES, KEY_BYTES, WEBHOOK
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Queue
from millrace.model.errors import BodyTooLarge, InvalidMessage, TooManyValues, UploadRefused
from millrace.model.message import Draft, Message
from millrace.model.strict_json import parse
from millrace.model.values import dataclass

if TYPE_CHECKING:
    from millrace.definitions.message_type import Field, RecordType

log = logging.getLogger("millrace.admission")

#: Kept among the headers of a webhook's message. No sender can send it: a header's name has no colon.
SOURCE_IP = ":source-ip"
FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 2_000

#: Gives the body as JSON; ValueError where it is none.
ParseBody = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A draft that fits its queue's definition, with the keys that the definition gives it."""

    draft: Draft
    filtered: bool = False  #: the queue's filter leaves it out: recorded, never queued
    key_missing: bool = False  #: the key's expression has no value: it is in the group `(none)`


def admit(
    definition: QueueDefinition,
    draft: Draft,
    now: int,
    *,
    fallback_key: str | None = None,
    document: ParseBody | None = None,
) -> Admitted:
    """Hold a draft against its queue's definition. Pure: nothing is written.

    Raises BodyTooLarge, TooManyValues, or InvalidMessage with the path of every problem. Keys that the sender named
    are left as they are: the engine checks them with everything else that a sender may name. `document` spares a
    second parse.
    """
    limit = definition.spec.max_body_bytes
    if draft.size > limit:
        raise BodyTooLarge(draft.size, limit)
    if definition.message_type is None:
        keyed = draft if draft.idempotency_key else replace(draft, idempotency_key=fallback_key)
        return Admitted(keyed)
    if draft.stored is not None:
        raise UploadRefused(definition.spec.name)
    typed = typed_draft(definition.message_type, draft, now, document)
    key, missing = _ordering_key(definition, draft, typed)
    keyed = replace(draft, key=key, idempotency_key=_idempotency_key(definition, draft, typed) or fallback_key)
    return Admitted(keyed, filtered=not definition.accepts(typed), key_missing=missing)


def accept(
    queue: Queue,
    definition: QueueDefinition,
    draft: Draft,
    *,
    fallback_key: str | None = None,
    system_key: str = "",
    document: ParseBody | None = None,
) -> Receipt:
    """Admit a draft and hand it to its queue; a filtered one is recorded instead.

    `system_key` is a fallback that the queue itself made, out of reach of any sender. Raises what `admit` and
    `enqueue` raise.
    """
    admitted = admit(definition, draft, queue.now(), fallback_key=fallback_key, document=document)
    if admitted.key_missing:
        count_missing_keys(queue.spec.name, 1)
    own = "" if admitted.draft.idempotency_key else system_key
    write = record_filtered if admitted.filtered else enqueue
    return write(queue, admitted.draft, system_key=own)


def count_missing_keys(queue: str, messages: int) -> None:
    """Say that messages went into the group `(none)`: a sum over `messages` is how many."""
    extra = {"action": "key_missing", "queue": queue, "messages": messages}
    log.warning("A key has no value; its messages share the group %s.", NO_KEY, extra=extra)


def fit_key(key: str, limit: int) -> str:
    """A key as the queue takes it: what is too long or has odd characters is named by its hash.

    Refusing it would lose a message for a value that its sender has every right to send.
    """
    data = key.encode("utf-8", "surrogatepass")
    if len(data) <= limit and key.isprintable():
        return key
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _ordering_key(definition: QueueDefinition, draft: Draft, typed: dict[str, Any]) -> tuple[str, bool]:
    if draft.key or definition.key is None:
        return draft.key, False
    found = definition.key_of(typed)
    return (NO_KEY, True) if found is None else (fit_key(found, KEY_BYTES), False)


def _idempotency_key(definition: QueueDefinition, draft: Draft, typed: dict[str, Any]) -> str | None:
    if draft.idempotency_key:
        return draft.idempotency_key
    found = definition.idempotency_key_of(typed)
    return None if found is None else fit_key(found, IDEMPOTENCY_KEY_BYTES)


def typed_message(message_type: RecordType | None, message: Message, body: bytes) -> dict[str, Any]:
    """The typed form of a stored message. Raises InvalidMessage for a body that cannot be read as its type asks."""
    if message_type is None:
        raise InvalidMessage([("message", "a message_type, where there is something to render", "none")])
    return _typed(message_type, message, body, message.received_at, lambda: parse(body))


def typed_draft(
    message_type: RecordType, draft: Draft, received_at: int, document: ParseBody | None = None
) -> dict[str, Any]:
    """The typed form of a draft, checked against its type.

    Raises TooManyValues, or InvalidMessage with the path of every problem. `document` spares a second parse where the
    body was read before.
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
    except TooManyValues:
        raise
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
