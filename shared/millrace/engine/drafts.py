"""Checking what a sender hands in, before anything is written."""

from __future__ import annotations

import re
from dataclasses import replace

from millrace.engine.queue import Queue
from millrace.model.clock import Entropy
from millrace.model.errors import BodyTooLarge, InvalidField, UploadRefused
from millrace.model.ids import keyed_message_id, random_token
from millrace.model.journal import EFFECTS
from millrace.model.keys import may_set_priority
from millrace.model.message import Draft
from millrace.model.queue_spec import MAX_PRIORITY, PRIORITIES, QueueSpec
from millrace.model.trace_context import traced
from millrace.model.values import dataclass

CORRELATION_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
LABEL = re.compile(r"[A-Za-z0-9._:/+=@-]{1,32}")
#: Together with the longest names an entry stays below 1 KB: one write unit.
KEY_BYTES, PROJECT_BYTES, LABEL_BYTES = 128, 64, 160
IDEMPOTENCY_KEY_BYTES = 512
HEADER_BYTES = 8 * 1024
#: Keys that the queue itself makes (replays, chained messages) begin with this; no sender's key can.
RESERVED = "\x1f"
#: `source` of a message that a webhook brought begins with this; its name follows. No other way in may use it.
WEBHOOK = "webhook:"


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft whose every field is in range, with its defaults filled in."""

    draft: Draft
    id: str
    keyed: bool  #: its id comes from an idempotency key: it may be there already
    nonce: str
    priority: int
    project: str
    labels: tuple[str, ...]
    correlation_id: str
    due: int  #: 0 for at once


def check(queue: Queue, draft: Draft, now: int, *, system_key: str = "") -> Checked:
    """Refuse what is out of range, with a typed error; fill in what the queue's definition says.

    `system_key` is an idempotency key that the queue itself made.
    """
    spec = queue.spec
    if draft.size > spec.max_body_bytes:
        raise BodyTooLarge(draft.size, spec.max_body_bytes)
    if draft.stored is not None and spec.encrypt:
        raise UploadRefused(spec.name, encrypted=True)
    _check_text("key", draft.key, KEY_BYTES)
    if spec.keyed and not draft.key:
        raise InvalidField("key", "is missing", f"1 to {KEY_BYTES} bytes: queue {spec.name!r} goes by key")
    if draft.idempotency_key is not None:
        _check_text("idempotency_key", draft.idempotency_key, IDEMPOTENCY_KEY_BYTES, min_=1)
    project = spec.project if draft.project is None else draft.project
    _check_text("project", project, PROJECT_BYTES)
    _check_headers(draft)
    headers = traced(draft.headers)
    if headers is not draft.headers:
        draft = replace(draft, headers=headers)
    key = system_key or (draft.idempotency_key and spaced_key(draft.source, draft.idempotency_key))
    return Checked(
        draft,
        id=keyed_message_id(queue.tenant, spec.name, key) if key else queue.runtime.orders.next(),
        keyed=bool(key),
        nonce=random_token(queue.runtime.entropy),
        priority=_priority(spec, draft.priority),
        project=project,
        labels=_labels(spec.labels if draft.labels is None else draft.labels),
        correlation_id=correlation_id(draft.correlation_id, queue.runtime.entropy),
        due=_due(spec, draft.not_before, now),
    )


def spaced_key(source: str, key: str) -> str:
    """A sender's key in the space that it lives in: each webhook has one, everybody else shares one.

    So nobody with a token can take the key of a delivery to come, which would then be taken for a repeat.
    """
    return f"{RESERVED}{source}{RESERVED}{key}" if source.startswith(WEBHOOK) else key


class CorrelationId(str):
    """A correlation id that is fit to be logged and sent on."""

    __slots__ = ()


def correlation_id(given: str | None, entropy: Entropy) -> CorrelationId:
    """The caller's, where it is fit to be logged and sent on; else a new one. What went through here stays as it is."""
    if isinstance(given, CorrelationId):
        return given
    if given is not None and CORRELATION_ID.fullmatch(given.strip()):
        return CorrelationId(given.strip())
    return CorrelationId(random_token(entropy))


def priority_number(priority: int | str) -> int:
    """A priority's number, from a name or a number."""
    number = PRIORITIES.get(priority) if isinstance(priority, str) else priority
    if number is None or isinstance(number, bool) or not 0 <= number <= MAX_PRIORITY:
        names = ", ".join(PRIORITIES)
        raise InvalidField("priority", f"{priority!r} is out of range", f"0 to {MAX_PRIORITY}, or one of {names}")
    return number


def _priority(spec: QueueSpec, priority: int | str | None) -> int:
    if priority is None:
        return spec.priority
    number = priority_number(priority)
    if not may_set_priority(spec.ordering):
        raise InvalidField(
            "priority", f"queue {spec.name!r} is {spec.ordering}", "none: arrival alone decides its order"
        )
    return number


def _labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    if not labels:
        return ()
    if sum(len(label) + 1 for label in labels) > LABEL_BYTES or not all(LABEL.fullmatch(label) for label in labels):
        raise InvalidField(
            "labels",
            f"{list(labels)[:20]!r} do not fit",
            f"words of 1 to 32 letters, digits and ._:/+=@-, at most {LABEL_BYTES} bytes in all",
        )
    return tuple(dict.fromkeys(labels))


def _due(spec: QueueSpec, not_before: int | None, now: int) -> int:
    if not_before is None:
        return 0
    latest = now + spec.retention.max_age_seconds * 1000
    if not 0 <= not_before < latest:
        raise InvalidField(
            "not_before",
            f"{not_before} is out of range",
            f"a time in ms before the queue's retention of {spec.retention.max_age_seconds} s ends",
        )
    return not_before if not_before > now else 0


def due_after(now: int, delay_ms: int, field: str = "delay_ms") -> int:
    """The time that a relative delay names."""
    if delay_ms < 0:
        raise InvalidField(field, f"{delay_ms} is negative", "0 or more milliseconds")
    return now + delay_ms


def _check_text(field: str, text: str, most: int, min_: int = 0) -> None:
    if text.isascii() and text.isprintable() and min_ <= len(text) <= most:
        return  # nearly every text: no need to look at its characters one by one
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = -1
    if not min_ <= size <= most or any(ord(character) < 0x20 for character in text):
        raise InvalidField(
            field, f"{text[:40]!r} is malformed", f"{min_} to {most} bytes of text without control characters"
        )


def _check_headers(draft: Draft) -> None:
    if not draft.headers:
        return
    allowed = f"names and values of text, no name empty, at most {HEADER_BYTES} bytes in all"
    try:
        given = {name: value for name, value in draft.headers.items() if name != EFFECTS}  # a replay's own, small
        size = sum(len(name.encode()) + len(value.encode()) for name, value in given.items())
    except UnicodeEncodeError:
        raise InvalidField("headers", "are not text", allowed) from None
    if size > HEADER_BYTES or "" in draft.headers:
        raise InvalidField("headers", f"{size} bytes" if size > HEADER_BYTES else "have an empty name", allowed)
