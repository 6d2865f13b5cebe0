"""The rate limit over all workers: starts are spaced by a clock that every worker reserves from."""

from __future__ import annotations

from itertools import pairwise

import pytest

from millrace.engine.enqueue import enqueue_all
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import QueueState
from millrace.worker import RunContext
from millrace.worker.rate_limiter import RateLimiter
from tests.conftest import Bench
from tests.worker.conftest import drain


def test_starts_are_spaced_by_the_rate(bench: Bench) -> None:
    queue = bench.queue(rate_per_second=10)
    enqueue_all(queue, [Draft(b"{}") for _ in range(12)])
    begun = bench.clock()
    starts: list[int] = []

    def wait(_condition: object, seconds: float) -> None:
        bench.clock.forward(round(seconds * 1000))

    drain(
        queue,
        lambda context: starts.append(context.started_at - begun),
        concurrency=1,
        patience_ms=20_000,
        wait=wait,
    )
    assert len(starts) == 12
    assert all(later - earlier >= 100 for earlier, later in pairwise(starts))
    assert starts[-1] <= 12 * 100 + 250


def test_two_workers_share_one_clock(bench: Bench) -> None:
    one = RateLimiter(bench.queue(rate_per_second=100), 100)
    other = RateLimiter(bench.queue(runtime=bench.another_process(), rate_per_second=100), 100)
    times = one.reserve(5) + other.reserve(5) + one.reserve(2)
    now = bench.clock()
    assert times == [now + 10 * number for number in range(12)]


def test_a_reservation_lost_to_another_worker_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = RateLimiter(bench.queue(), 100)
    rival = RateLimiter(bench.queue(runtime=bench.another_process()), 100)
    real = bench.store.set_pace
    beaten: list[int] = []

    def beaten_once(seen: QueueState, pace_at: int) -> bool:
        if not beaten:
            beaten.append(1)
            rival.reserve(3)
        return real(seen, pace_at)

    monkeypatch.setattr(bench.store, "set_pace", beaten_once)
    assert limiter.reserve(1) == [bench.clock() + 30]


def test_a_start_that_comes_too_late_gives_up_its_time(bench: Bench) -> None:
    """Late ones would bunch up with those that are in time, and the receiver see twice the rate."""
    queue = bench.queue(rate_per_second=20, ordering=Ordering.FIFO)
    enqueue_all(queue, [Draft(b"{}") for _ in range(6)])
    starts: list[int] = []

    def wait(_condition: object, seconds: float) -> None:
        bench.clock.forward(round(seconds * 1000))

    def handle(context: RunContext) -> None:
        starts.append(context.started_at)
        if len(starts) == 1:
            bench.clock.forward(1_000)

    drain(queue, handle, concurrency=1, patience_ms=20_000, wait=wait)
    assert len(starts) == 6
    assert all(later - earlier >= 50 for earlier, later in pairwise(starts))


def test_nothing_is_reserved_while_there_is_nothing_to_run(bench: Bench) -> None:
    queue = bench.queue(rate_per_second=10)
    drain(queue, lambda _context: None)
    assert queue.state(fresh=True).pace_at == 0
