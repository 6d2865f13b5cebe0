"""The buffer: which runs may start now, alone or in company, and what waits for memory."""

from __future__ import annotations

from dataclasses import replace

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Queue
from millrace.handlers.batches import BatchSettings
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from millrace.worker.body_budget import BodyBudget
from millrace.worker.buffer import Buffer
from millrace.worker.run import Run
from tests.conftest import Bench


def buffer_of(queue: Queue, count: int, size: int = 1, *, alone: int | None = None) -> tuple[Buffer, list[Run]]:
    """A buffer of so many runs, one of which may have failed before."""
    buffer = Buffer(queue, BatchSettings(size), None, lambda: None)
    enqueue_all(queue, [Draft(b"{}") for _ in range(count)])
    taken = claim(queue, owner="test", limit=count).claims
    runs = [Run(one, one.entry) for one in taken]
    for number, run in enumerate(runs):
        if number == alone:
            run.claim = replace(run.claim, entry=replace(run.claim.entry, attempts=1))
        buffer.append(run)
    return buffer, runs


def test_a_call_takes_no_more_than_its_batch(memory_bench: Bench) -> None:
    buffer, runs = buffer_of(memory_bench.queue(), 5, size=2)
    assert buffer.calls == 3
    calls = [buffer.take_call() for _ in range(4)]
    assert [call.runs if call else None for call in calls] == [runs[:2], runs[2:4], runs[4:], None]
    assert runs[0].call is calls[0]


def test_one_that_failed_before_goes_alone_and_others_go_past_it(memory_bench: Bench) -> None:
    buffer, runs = buffer_of(memory_bench.queue(), 3, size=3, alone=1)
    calls = [buffer.take_call(), buffer.take_call()]
    assert [call.runs for call in calls if call] == [[runs[0], runs[2]], [runs[1]]]


def test_in_a_fifo_queue_nobody_goes_past_another(memory_bench: Bench) -> None:
    buffer, runs = buffer_of(memory_bench.queue(ordering=Ordering.FIFO), 3, size=3, alone=1)
    calls = [buffer.take_call() for _ in range(3)]
    assert [call.runs for call in calls if call] == [[runs[0]], [runs[1]], [runs[2]]]


def test_nothing_starts_before_its_turn(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    buffer, runs = buffer_of(queue, 1)
    runs[0].start_at = queue.now() + 7
    assert buffer.take_first() is None
    assert buffer.turn_in() == 7
    memory_bench.clock.forward(7)
    assert buffer.take_first() is runs[0]


def test_what_waits_for_memory_does_not_count_and_says_so_once(memory_bench: Bench) -> None:
    queue, deferred = memory_bench.queue(), []
    budget = BodyBudget(1)
    buffer = Buffer(queue, BatchSettings(1), budget, lambda: deferred.append(1))
    enqueue_all(queue, [Draft(b'"' + b"x" * 200_000 + b'"') for _ in range(2)])
    runs = [Run(one, one.entry) for one in claim(queue, owner="test", limit=2).claims]
    for run in runs:
        buffer.append(run)
    assert buffer.take_first() is runs[0]
    assert [buffer.take_first(), buffer.take_first()] == [None, None]
    assert (buffer.startable, len(buffer), deferred) == (0, 1, [1])
    budget.give(runs[0])
    assert buffer.take_first() is runs[1]
    assert buffer.take_all() == []
