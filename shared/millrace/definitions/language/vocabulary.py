"""Which settings and blocks belong where, and the limits of every number."""

from __future__ import annotations

from typing import NamedTuple

from millrace.model.queue_spec import MAX_PRIORITY
from millrace.model.uploads import MAX_UPLOAD_BYTES


class Words(NamedTuple):
    """What may stand inside one kind of block."""

    properties: tuple[str, ...]
    blocks: tuple[str, ...] = ()


VOCABULARY: dict[str, Words] = {
    "file": Words((), ("app",)),
    "app": Words((), ("queue", "webhook", "tenant", "schedule")),
    "queue": Words(
        (
            "ordering", "key", "filter", "shards", "priority", "project", "labels", "lease_seconds",
            "execution_timeout_seconds", "max_concurrency", "concurrency_per_key", "max_body_bytes", "backoff",
            "dictionary", "encrypt", "fed_by", "drained_by",
        ),
        ("message_type", "retention", "delivery", "idempotency", "rate_limit", "map_to"),
    ),
    "retention": Words(("max_age_seconds", "max_depth")),
    "delivery": Words(("max_attempts", "initial_backoff_ms", "max_backoff_ms", "backoff", "dead_letter_queue")),
    "idempotency": Words(("key", "window_seconds", "cache_result")),
    "rate_limit": Words(("per_second",)),
    "webhook": Words(
        (
            "queue", "provider", "tolerance_seconds", "verify", "verify_token", "secret", "secret_env", "public_url",
            "unsigned_headers", "tenants",
        ),
        ("verify_hmac", "secret", "message_type", "map_to"),
    ),
    "verify_hmac": Words(
        (
            "header", "prefix", "algorithm", "encoding", "key", "place", "separator", "timestamp_header",
            "timestamp_prefix", "timestamp_unit", "tolerance_seconds", "template", "id_header", "success_status",
            "overload_status", "secret", "secret_env",
        ),
        ("secret",),
    ),
    "secret": Words(("valid_from", "valid_until")),
    "schedule": Words(("cron", "timezone", "queue", "message", "catch_up", "tenant")),
    "tenant": Words((), ("webhook",)),
    "tenant_webhook": Words(("secret", "secret_env"), ("secret",)),
    "map_to": Words(("secret", "secret_env")),
}  # fmt: skip

#: Blocks and settings that may stand several times in one block.
REPEATABLE = frozenset({"app", "queue", "webhook", "tenant", "schedule", "map_to", "secret", "secret_env"})

DAY = 86_400

#: Lowest and highest value of every number.
LIMITS: dict[str, tuple[float, float]] = {
    "shards": (1, 100),
    "priority": (0, MAX_PRIORITY),
    "lease_seconds": (1, DAY // 2),
    "execution_timeout_seconds": (1, DAY),
    "max_concurrency": (1, 10_000),
    "concurrency_per_key": (1, 100),
    "max_body_bytes": (1, MAX_UPLOAD_BYTES),
    "max_age_seconds": (1, 365 * DAY),
    "max_depth": (1, 1_000_000_000),
    "max_attempts": (1, 100),
    "initial_backoff_ms": (0, DAY * 1000),
    "max_backoff_ms": (0, 7 * DAY * 1000),
    "window_seconds": (1, 30 * DAY),
    "per_second": (0.001, 100_000),
    "tolerance_seconds": (1, DAY),
    "success_status": (200, 299),
    "overload_status": (429, 599),
}

#: An entry stays below one write unit, so what it repeats from the definition is small.
MAX_LABELS = 16
MAX_LABEL_CHARACTERS = 256
MAX_PROJECT_CHARACTERS = 64


def home_of(name: str) -> str | None:
    """The kind of block in which a word belongs; None for a word of no block."""
    for kind, words in VOCABULARY.items():
        if name in words.properties or name in words.blocks:
            return kind
    return None
