"""Counting: dead letters through replay and purge; endings of a busy queue, which share their writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.counters import MAX_WAIT_MS, book_endings, book_what_is_due, flush
from millrace.engine.credits import COUNTER_WRITES
from millrace.engine.dead_letters import list_dead_letters, purge_dead_letter, replay
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.model.queue_spec import Retention, RetryPolicy
from millrace.model.queue_state import CounterDelta, CreditRequest, QueueState
from tests.conftest import Bench


def test_dead_letters_are_counted_through_replay_and_purge(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    enqueue_all(queue, [Draft(b"x")] * 3)
    for held in claim(queue, owner="w", limit=3).claims:
        nack(queue, held.entry, held.message, RunFailure("E", "x"))
    assert stats(queue).dead_letters == 3
    dead_letters = list_dead_letters(queue).items
    replay(queue, dead_letters[0], job="j1")
    purge_dead_letter(queue, dead_letters[1].sk)
    assert stats(queue).dead_letters == 1, "one is replayed, one is gone"
    replay(queue, list_dead_letters(queue).items[0], job="j2")
    purge_dead_letter(queue, dead_letters[0].sk)
    assert stats(queue).dead_letters == 1, "what was replayed is counted once"
    bench.clock.forward(queue.spec.retention.dead_letter_seconds * 1_000 + 86_400_000)
    assert stats(queue).dead_letters == 0
    assert list_dead_letters(queue).items == ()
    (day,) = queue.state(fresh=True).dead_days
    bench.clock.forward(2 * 86_400_000)
    enqueue(queue, Draft(b"x"))
    ack(queue, [c.entry for c in claim(queue, owner="w", limit=9).claims])
    assert day not in queue.state(fresh=True).dead_days


class Busy:
    """A queue in which others end so many a second, as its counter shows at each of our own writes."""

    def __init__(self, bench: Bench, others_per_s: int, **settings: Any) -> None:
        self.bench = bench
        self.queue: Queue = bench.queue(**settings)
        self.writes: list[CounterDelta] = []
        self.depth = bench.store.take_credits(bench.tenant, "Jobs", CreditRequest(100_000, 1_000_000, bench.clock()))
        settle = bench.store.settle
        began = bench.clock()

        def busy(tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
            self.writes.append(delta)
            state = settle(tenant, queue, delta)
            others = others_per_s * (bench.clock() - began) // 1_000
            return replace(state, returned=state.returned + others) if state else None

        bench.store.settle = busy  # type: ignore[method-assign]

    @contextmanager
    def drained(self) -> Iterator[None]:
        with self.queue.runtime.pending_counters.drained(self.bench.tenant, "Jobs"):
            yield

    def end(self, count: int, ms: int = 100) -> None:
        self.bench.clock.forward(ms)
        book_endings(self.queue, self.queue.state().epoch, count, done=[f"m{n}" for n in range(count)])


def test_endings_of_a_busy_queue_share_their_writes_while_a_worker_drains_it(memory_bench: Bench) -> None:
    busy = Busy(memory_bench, others_per_s=20_000)
    with busy.drained():
        for _ in range(200):  # of 25 each: 250 a second of our own
            busy.end(25)
        flush(busy.queue)
    assert sum(delta.ended for delta in busy.writes) == sum(delta.done for delta in busy.writes) == 5_000
    assert len(busy.writes) <= 200 * 25 / (20_000 / COUNTER_WRITES) + 3, "our part of the writes that all may make"
    assert busy.queue.state(fresh=True).depth == 95_000


def test_endings_of_a_calm_queue_are_written_at_once(memory_bench: Bench) -> None:
    busy = Busy(memory_bench, others_per_s=100)
    with busy.drained():
        for _ in range(10):
            busy.end(25)
    assert [delta.ended for delta in busy.writes] == [25] * 10


def test_endings_near_the_limit_are_written_at_once(memory_bench: Bench) -> None:
    busy = Busy(memory_bench, others_per_s=20_000, retention=Retention(max_depth=100_600))
    with busy.drained():
        for _ in range(10):
            busy.end(25)
    assert len(busy.writes) == 10


def test_endings_that_nobody_will_flush_are_written_at_once(memory_bench: Bench) -> None:
    busy = Busy(memory_bench, others_per_s=20_000)
    for _ in range(10):
        busy.end(1)
    assert len(busy.writes) == 10


def test_endings_wait_no_longer_than_a_few_seconds(memory_bench: Bench) -> None:
    busy = Busy(memory_bench, others_per_s=20_000)
    with busy.drained():
        for _ in range(3):
            busy.end(1)
        assert len(busy.writes) == 2, "the rate is known after two"
        memory_bench.clock.forward(MAX_WAIT_MS)
        book_what_is_due(busy.queue)
        assert [delta.ended for delta in busy.writes] == [1, 1, 1]
        book_what_is_due(busy.queue)
        assert len(busy.writes) == 3


def test_pooled_endings_are_booked_under_the_oldest_epoch_that_they_were_seen_under(memory_bench: Bench) -> None:
    """Else one that a sweep has counted as gone would give its credit back once more."""
    busy = Busy(memory_bench, others_per_s=20_000)
    with busy.drained():
        for _ in range(2):
            busy.end(1)
        before = busy.queue.state(fresh=True)
        book_endings(busy.queue, before.epoch, 5)
        assert memory_bench.store.repair_depth(before, 5, memory_bench.clock())
        repaired = busy.queue.state(fresh=True)
        book_endings(busy.queue, repaired.epoch, 3)
        flush(busy.queue)
    assert busy.writes[-1].epoch == before.epoch
    assert busy.queue.state(fresh=True).depth == repaired.depth


@pytest.mark.parametrize("count", [1, 9])
def test_the_newest_done_are_remembered_over_pooled_writes(memory_bench: Bench, count: int) -> None:
    busy = Busy(memory_bench, others_per_s=20_000)
    with busy.drained():
        for _ in range(2):
            busy.end(1)
        for number in range(count):
            book_endings(busy.queue, 0, 1, done=[f"new{number}"])
        flush(busy.queue)
    remembered = busy.queue.state(fresh=True).recent_done
    assert remembered[: min(count, 7)] == tuple(f"new{number}" for number in reversed(range(count)))[:7]
