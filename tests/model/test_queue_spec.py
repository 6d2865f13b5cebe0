"""What a queue's settings come to."""

from __future__ import annotations

import pytest

from millrace.model.queue_spec import Idempotency, Ordering, QueueSpec, Retention

DAY = 86_400


def test_two_orderings_are_ordered() -> None:
    assert [ordering.ordered for ordering in Ordering] == [False, True, True]


@pytest.mark.parametrize(
    ("spec", "keyed"),
    [
        (QueueSpec("Q"), False),
        (QueueSpec("Q", fair=True), True),
        (QueueSpec("Q", ordering=Ordering.PER_KEY), True),
        (QueueSpec("Q", ordering=Ordering.FIFO), False),
    ],
)
def test_keys_lie_together_where_they_take_turns_or_keep_their_order(spec: QueueSpec, keyed: bool) -> None:
    assert spec.keyed is keyed


@pytest.mark.parametrize("window", [DAY, 30 * DAY])
def test_what_is_kept_outlives_what_asks_for_it(window: int) -> None:
    retention = Retention(max_age_seconds=4 * DAY, dead_letter_seconds=14 * DAY)
    spec = QueueSpec("Q", retention=retention, idempotency=Idempotency(window_seconds=window))
    assert spec.message_ttl(1_000) == 1 + max(4 * DAY, window) + 7 * DAY
    assert spec.location_ttl(1_000) == spec.message_ttl(1_000) + 21 * DAY
    assert retention.body_days == 4 + 14 + 7
    assert Retention(max_age_seconds=1, dead_letter_seconds=14 * DAY).body_days == 22


def test_a_lease_is_counted_in_milliseconds() -> None:
    assert QueueSpec("Q", lease_seconds=1.5).lease_ms == 1_500
