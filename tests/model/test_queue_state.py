"""What a queue's counters say at a moment: rates, credits, and what nobody reads any more."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.model.clock import DAY, MINUTE
from millrace.model.message import Draft
from millrace.model.queue_state import COMMIT_WITHIN_MS, SKEW_MS, CounterDelta, CreditRequest, QueueState
from tests.conftest import NOON, Bench


@pytest.mark.parametrize(
    ("elapsed", "rate"),
    [(0, 600.0), (15_000, 750.0), (30_000, 600.0 / 2 + 300), (59_999, 300 + 600 / MINUTE), (60_000, 300.0)],
)
def test_a_rate_is_the_running_minute_and_the_part_of_the_one_before(elapsed: int, rate: float) -> None:
    minute = NOON // MINUTE
    counted = {minute - 1: 600, minute: 300 if elapsed else 0}
    state = QueueState("t", "Jobs", arrivals=counted, endings={minute - 2: 9_999})
    arrived, done = state.per_minute(minute * MINUTE + elapsed)
    assert arrived == pytest.approx(rate)
    assert done == 0


def test_a_flood_is_seen_while_it_lasts_and_is_over_two_minutes_later(bench: Bench) -> None:
    queue = bench.queue()
    enqueue_all(queue, [Draft(b"x")] * 100)
    queue.runtime.credits.give_back()
    bench.clock.forward(1_000)
    ack(queue, [held.entry for held in claim(queue, owner="w", limit=40).claims])
    arrived, done = queue.state(fresh=True).per_minute(bench.clock())
    assert (arrived, done) == (100, 40)
    bench.clock.forward(2 * MINUTE)
    assert queue.state(fresh=True).per_minute(bench.clock()) == (0, 0)


def test_grants_can_be_spent_until_the_end_of_the_next_minute() -> None:
    state = QueueState("t", "q", grants={1_000: 5})
    last = 1_002 * MINUTE + COMMIT_WITHIN_MS + SKEW_MS - 1
    assert [state.spendable_grants(now) for now in (1_000 * MINUTE, last, last + 1)] == [5, 5, 0]


def test_minutes_and_days_that_nobody_reads_any_more_are_stale() -> None:
    state = QueueState("t", "q", grants={993: 1}, arrivals={994: 1, 1_000: 1}, dead_days={1: 2, 8: 3, 9: 4})
    assert state.stale_minutes(1_000 * MINUTE) == (993,)
    week = 7 * 86_400
    assert state.stale_days(10 * DAY, week) == (1,)
    assert state.dead_letters(15 * DAY, week) == 7


def test_a_batch_gives_back_what_ended_and_what_was_not_spent() -> None:
    delta = CounterDelta(1_000 * MINUTE + 59_999, ended=3, unspent=2)
    assert (delta.minute, delta.credits) == (1_000, 5)
    assert CreditRequest(1, 10, 1_000 * MINUTE).minute == 1_000
