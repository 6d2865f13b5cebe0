"""A queue, compiled: its settings, its defaults, and the names that linking must still find."""

from __future__ import annotations

import pytest

from millrace.model.queue_spec import Ordering, RetryPolicy
from tests.definitions.writing import loaded, only_message, queue_text


def test_what_is_not_written_has_its_default() -> None:
    spec = loaded(queue_text("")).queue("Jobs").spec
    assert (spec.ordering, spec.shards, spec.delivery, spec.fair) == (Ordering.UNORDERED, 1, RetryPolicy(), False)


def test_settings_arrive_where_they_belong() -> None:
    definition = loaded(
        queue_text(
            'ordering: per_key(payload.id)  shards: 4  labels: ["a", "b"]  rate_limit { per_second: 2.5 }'
            "  delivery { max_attempts: 7 }  retention { max_depth: 9 }  lease_seconds: 12"
        )
    ).queue("Jobs")
    spec = definition.spec
    assert (spec.ordering, spec.shards, spec.labels) == (Ordering.PER_KEY, 4, ("a", "b"))
    assert (spec.rate_per_second, spec.delivery.max_attempts, spec.retention.max_depth) == (2.5, 7, 9)
    assert (spec.lease_seconds, definition.key_of({"payload": {"id": "k"}})) == (12, "k")


def test_a_key_has_as_many_places_as_its_queue_says() -> None:
    limited = loaded(queue_text("ordering: per_key(payload.id)  concurrency_per_key: 3")).queue("Jobs").spec
    assert (limited.concurrency_per_key, limited.max_concurrency) == (3, 10)
    assert loaded(queue_text("ordering: per_key(payload.id)")).queue("Jobs").spec.concurrency_per_key is None


def test_a_key_of_its_own_makes_an_unordered_queue_fair() -> None:
    assert loaded(queue_text("key: payload.id")).queue("Jobs").spec.fair


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ordering: per_key", "per_key needs its key"),
        ("ordering: fifo  shards: 2", "a fifo queue has one shard"),
        ("ordering: fifo  key: payload.id", "a fifo queue has one order for all keys"),
        ("delivery { initial_backoff_ms: 100  max_backoff_ms: 50 }", "`max_backoff_ms` is below the initial"),
        ("rate_limit { }", "`rate_limit` has no rate"),
        ("max_body_bytes: 6291457", "a queue with a message_type takes bodies of at most 6291456 bytes"),
        ("max_body_bytes: 104857601", "`max_body_bytes` must be between 1 and 104857600"),
        ("labels: [1]", "`labels` must be a list of strings"),
    ],
)
def test_settings_that_contradict_are_refused(body: str, message: str) -> None:
    assert only_message(queue_text(body)).startswith(message)
