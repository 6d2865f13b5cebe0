"""A queue's counters as rates: what happens now is seen now."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.model.clock import MINUTE
from millrace.model.message import Draft
from millrace.model.queue_state import QueueState
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
