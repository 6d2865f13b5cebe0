"""Checks and compiles `queue { … }`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.encryption import encryption_key
from millrace.definitions.language.lowering import lower
from millrace.definitions.language.message_types import resolve_record
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.definitions.language.syntax import Expr, Literal, Word
from millrace.definitions.language.targets import compile_target
from millrace.definitions.language.vocabulary import (
    LIMITS,
    MAX_LABEL_CHARACTERS,
    MAX_LABELS,
    MAX_PROJECT_CHARACTERS,
)
from millrace.definitions.message_type import RecordType
from millrace.model.queue_spec import (
    MAX_BODY_BYTES,
    PRIORITIES,
    Idempotency,
    Jitter,
    Ordering,
    QueueSpec,
    Retention,
    RetryPolicy,
)

_DEFAULT = QueueSpec("")
_ORDERINGS = tuple(ordering.value for ordering in Ordering)


@dataclass(frozen=True)
class CheckedQueue:
    """A compiled queue, with the names that linking must still find."""

    name: Word
    settings: BlockReader
    message_type: RecordType | None  #: None: it takes any bytes
    compiled: dict[str, Any]
    dead_letter_queue: Word | None
    target_queues: tuple[Word, ...]
    fed_by_api: bool
    drained_by_api: bool


def check_queue(name: Word, app: str, settings: BlockReader) -> CheckedQueue:
    """One queue. Everything wrong inside it is reported; defaults stand in."""
    delivery = settings.block("delivery")
    idempotency = settings.block("idempotency")
    declared = _message_type(name, settings, idempotency)
    message_type = declared or RecordType({})
    ordering, key = _ordering(message_type, settings)
    mappings = [(mapping, compile_target(mapping, message_type, settings)) for mapping in settings.mappings]
    dead_letter_queue = delivery.reference("dead_letter_queue")
    compiled = {
        "app": app,
        "spec": {
            "ordering": ordering,
            "shards": _shards(ordering, settings),
            "fair": ordering == Ordering.UNORDERED and key is not None,
            "priority": _priority(settings),
            "project": settings.text("project", MAX_PROJECT_CHARACTERS) or "",
            "labels": _labels(settings),
            "retention": _retention(settings.block("retention")),
            "delivery": _delivery(delivery, settings),
            "idempotency": _idempotency(idempotency),
            "lease_seconds": settings.number("lease_seconds", _DEFAULT.lease_seconds),
            "execution_timeout_seconds": settings.number(
                "execution_timeout_seconds", _DEFAULT.execution_timeout_seconds
            ),
            "max_concurrency": settings.whole("max_concurrency", _DEFAULT.max_concurrency),
            "concurrency_per_key": _concurrency_per_key(ordering, settings),
            "rate_per_second": _rate(settings),
            "max_body_bytes": _max_body_bytes(settings, typed=declared is not None),
            "dictionary": _dictionary(settings),
            "encrypt": encryption_key(settings) or "",
        },
        "message_type": None if declared is None else declared.written(),
        "key": key,
        "filter": _optional(settings, "filter", message_type, "bool"),
        "idempotency_key": _optional(idempotency, "key", message_type, "string", "int"),
        "dead_letter_queue": None if dead_letter_queue is None else dead_letter_queue.text,
        "targets": [target for _, target in mappings if target is not None],
    }
    target_queues = tuple(
        mapping.destination
        for mapping, target in mappings
        if target is not None and target["kind"] == "queue" and isinstance(mapping.destination, Word)
    )
    return CheckedQueue(
        name,
        settings,
        declared,
        compiled,
        dead_letter_queue,
        target_queues,
        fed_by_api=settings.choice("fed_by", ("api",), None) is not None,
        drained_by_api=settings.choice("drained_by", ("api",), None) is not None,
    )


def _max_body_bytes(settings: BlockReader, *, typed: bool) -> int:
    """A message that has a type is read, and goes through functions whole: it cannot be as large as an upload."""
    value = settings.whole("max_body_bytes", _DEFAULT.max_body_bytes)
    if typed and value > MAX_BODY_BYTES:
        message = f"a queue with a message_type takes bodies of at most {MAX_BODY_BYTES} bytes"
        hint = "leave message_type out, or send where a larger body lies"
        settings.error(settings.span_of("max_body_bytes"), Code.RANGE, message, hint)
    elif value > MAX_BODY_BYTES and settings.has("encrypt"):
        message = f"an encrypted queue takes bodies of at most {MAX_BODY_BYTES} bytes"
        hint = "larger ones are uploads, which lie in the bucket as they came"
        settings.error(settings.span_of("max_body_bytes"), Code.RANGE, message, hint)
    return value


def _dictionary(settings: BlockReader) -> bool:
    """A dictionary is made of bodies and stored as it is."""
    value = settings.boolean("dictionary", default=_DEFAULT.dictionary)
    if value and settings.has("dictionary") and settings.has("encrypt"):
        message = "an encrypted queue has no dictionary: it would hold in plain what bodies share"
        settings.error(settings.span_of("dictionary"), Code.RANGE, message, "remove `dictionary`")
    return value


def _message_type(name: Word, settings: BlockReader, idempotency: BlockReader) -> RecordType | None:
    """The declared type. A queue may go without one, and take any bytes, as long as nothing of it reads a message."""
    if settings.types is not None:
        return resolve_record(settings.types.fields, settings.error, top=True)
    readers = ["map_to"] if settings.mappings else []
    readers += [setting for setting in ("filter", "key") if settings.has(setting)]
    readers += ["per_key"] if isinstance(settings.expression("ordering"), syntax.CallExpr) else []
    readers += ["idempotency key"] if idempotency.has("key") else []
    if readers:
        message = f"the queue `{name.text}` has no message_type, and its {readers[0]} reads the message"
        settings.error(name.span, Code.MISSING, message, "write `message_type { payload: json }`")
    return None


def _optional(settings: BlockReader, name: str, message_type: RecordType, *kinds: str) -> Any:
    expr = settings.expression(name)
    return None if expr is None else _lowered(settings, expr, message_type, f"`{name}`", *kinds)


def _lowered(settings: BlockReader, expr: Expr, message_type: RecordType, purpose: str, *kinds: str) -> Any:
    return lower(settings.parsed, expr, message_type, settings.report, purpose, *kinds)


def _ordering(message_type: RecordType, settings: BlockReader) -> tuple[str, Any]:
    """The ordering and the compiled key: the order's own, or the one that `key:` names for fairness."""
    written = settings.expression("ordering")
    fairness = settings.expression("key")
    if isinstance(written, syntax.CallExpr) and written.function.text == Ordering.PER_KEY and written.receiver is None:
        if fairness is not None:
            settings.error(settings.span_of("key"), Code.DUPLICATE, "per_key(…) is the key already", "remove `key`")
        if len(written.arguments) != 1:
            settings.error(written.span, Code.TYPE, "per_key takes one expression", "write per_key(payload.id)")
            return Ordering.PER_KEY.value, None
        kinds = ("string", "int")
        return Ordering.PER_KEY.value, _lowered(settings, written.arguments[0], message_type, "a key", *kinds)
    if isinstance(written, syntax.Name) and written.text == Ordering.PER_KEY:
        settings.error(written.span, Code.MISSING, "per_key needs its key", "write per_key(payload.id)")
        return Ordering.PER_KEY.value, None
    ordering = settings.choice("ordering", _ORDERINGS, Ordering.UNORDERED) or Ordering.UNORDERED.value
    if fairness is None:
        return str(ordering), None
    if ordering == Ordering.FIFO:
        hint = "remove `key`, or write `ordering: per_key(…)`"
        settings.error(settings.span_of("key"), Code.TYPE, "a fifo queue has one order for all keys", hint)
    return str(ordering), _lowered(settings, fairness, message_type, "a key", "string", "int")


def _shards(ordering: str, settings: BlockReader) -> int:
    shards = settings.whole("shards", _DEFAULT.shards)
    if ordering == Ordering.FIFO and shards != 1:
        hint = "remove `shards`, or write `ordering: per_key(…)` to keep order within a key"
        settings.error(settings.span_of("shards"), Code.RANGE, "a fifo queue has one shard", hint)
        return 1
    return shards


def _priority(settings: BlockReader) -> int:
    value = settings.expression("priority")
    if isinstance(value, syntax.Name):
        if value.text in PRIORITIES:
            return PRIORITIES[value.text]
        low, high = LIMITS["priority"]
        otherwise = f"write {', '.join(PRIORITIES)} or a number from {low} to {high}"
        hint = did_you_mean(value.text, tuple(PRIORITIES), otherwise)
        settings.error(value.span, Code.UNKNOWN, f"there is no priority `{value.text}`", hint)
        return _DEFAULT.priority
    return settings.whole("priority", _DEFAULT.priority)


def _labels(settings: BlockReader) -> list[str]:
    value = settings.expression("labels")
    if value is None or isinstance(value, syntax.Invalid):
        return []
    items = value.items if isinstance(value, syntax.ListExpr) else ()
    labels = [item.value for item in items if isinstance(item, Literal) and isinstance(item.value, str)]
    if not isinstance(value, syntax.ListExpr) or len(labels) != len(items):
        settings.error(value.span, Code.TYPE, "`labels` must be a list of strings", 'write ["billing", "eu"]')
        return []
    if len(labels) > MAX_LABELS or sum(map(len, labels)) > MAX_LABEL_CHARACTERS:
        message = f"at most {MAX_LABELS} labels with {MAX_LABEL_CHARACTERS} characters in all"
        settings.error(value.span, Code.RANGE, message, "every entry repeats them: keep them short")
        return []
    return labels


def _retention(settings: BlockReader) -> dict[str, Any]:
    default = Retention()
    return {
        "max_age_seconds": settings.whole("max_age_seconds", default.max_age_seconds),
        "max_depth": settings.whole("max_depth", default.max_depth),
        "dead_letter_seconds": default.dead_letter_seconds,
    }


def _delivery(settings: BlockReader, queue: BlockReader) -> dict[str, Any]:
    default = RetryPolicy()
    jitters = tuple(jitter.value for jitter in Jitter)
    initial = settings.whole("initial_backoff_ms", default.initial_backoff_ms)
    longest = settings.whole("max_backoff_ms", max(default.max_backoff_ms, initial))
    if longest < initial:
        hint = f"write at least {initial}"
        settings.error(settings.span_of("max_backoff_ms"), Code.RANGE, "`max_backoff_ms` is below the initial", hint)
    if settings.has("backoff") and queue.has("backoff"):
        settings.error(queue.span_of("backoff"), Code.DUPLICATE, "`backoff` stands in `delivery` too", "remove one")
    jitter = settings.choice("backoff", jitters, None) or queue.choice("backoff", jitters, default.jitter.value)
    return {
        "max_attempts": settings.whole("max_attempts", default.max_attempts),
        "initial_backoff_ms": initial,
        "max_backoff_ms": longest,
        "jitter": str(jitter),
    }


def _idempotency(settings: BlockReader) -> dict[str, Any]:
    default = Idempotency()
    return {
        "window_seconds": settings.whole("window_seconds", default.window_seconds),
        "cache_result": settings.boolean("cache_result", default=default.cache_result),
    }


def _concurrency_per_key(ordering: str, settings: BlockReader) -> int | None:
    """How many of a key are in hand at once. Their entries must lie in one order, so it needs `per_key`."""
    if not settings.has("concurrency_per_key"):
        return None
    count = settings.whole("concurrency_per_key", 1)
    if ordering != Ordering.PER_KEY:
        problem = f"`concurrency_per_key` needs a key, and this queue is {ordering}"
        hint = "write `ordering: per_key(payload.id)`, or remove it: `max_concurrency` limits all runs together"
        settings.error(settings.span_of("concurrency_per_key"), Code.TYPE, problem, hint)
        return None
    return count


def _rate(settings: BlockReader) -> float | None:
    limit = settings.block("rate_limit")
    if "rate_limit" in settings.blocks and not limit.has("per_second"):
        span = settings.blocks["rate_limit"][0].span
        settings.error(span, Code.MISSING, "`rate_limit` has no rate", "write `rate_limit { per_second: 10 }`")
    return limit.number("per_second", 1.0) if limit.has("per_second") else None
