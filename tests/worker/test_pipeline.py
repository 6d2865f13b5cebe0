"""The pipeline: each run has one owner for its ending, and no more is held than may be."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from millrace.worker import TimeLeft
from millrace.worker.pipeline import BATCH, MAX_UNWRITTEN, Pipeline
from millrace.worker.run import Run, Stage
from millrace.worker.time_left import real_wait
from tests.conftest import Bench


def pipeline_of(queue: Queue, concurrency: int = 2) -> Pipeline:
    return Pipeline(queue, concurrency, TimeLeft(), real_wait)


def runs_of(queue: Queue, count: int) -> list[Run]:
    enqueue_all(queue, [Draft(b"{}") for _ in range(count)])
    return [Run(taken, taken.entry) for taken in claim(queue, owner="test", limit=count).claims]


def started(pipeline: Pipeline, deadline: int = 0) -> Run:
    run = pipeline.next()
    assert run is not None
    assert pipeline.start(run, 0, deadline)
    return run


@pytest.fixture
def queue(memory_bench: Bench) -> Queue:
    return memory_bench.queue()


def test_an_ending_has_one_owner(queue: Queue) -> None:
    pipeline = pipeline_of(queue)
    pipeline.add(runs_of(queue, 1))
    run = started(pipeline, deadline=5)
    assert pipeline.take_overdue(5) == [run]
    assert not pipeline.take(run, Stage.RUNNING)
    assert pipeline.take_lost(run) is None
    assert pipeline.take_overdue(5) == []
    assert pipeline.busy
    pipeline.drop([run])
    assert not pipeline.busy


def test_what_has_started_is_not_given_back_with_the_rest(queue: Queue) -> None:
    pipeline = pipeline_of(queue)
    pipeline.add(runs_of(queue, 3))
    run = started(pipeline)
    rest = pipeline.take_unstarted()
    assert len(rest) == 2
    assert run not in rest
    assert pipeline.take_unstarted() == []


def test_a_lost_claim_never_starts(queue: Queue) -> None:
    pipeline = pipeline_of(queue)
    first, second = runs_of(queue, 2)
    pipeline.add([first, second])
    assert pipeline.take_lost(first) is Stage.BUFFERED
    assert not pipeline.start(first, 0, 0)
    assert pipeline.next() is second


def test_after_a_halt_nothing_starts(queue: Queue) -> None:
    pipeline = pipeline_of(queue)
    pipeline.add(runs_of(queue, 2))
    pipeline.halt()
    pipeline.close()
    assert pipeline.next() is None
    assert len(pipeline.take_unstarted()) == 2


def test_stuck_threads_keep_their_places(queue: Queue) -> None:
    pipeline = pipeline_of(queue, concurrency=2)
    (run,) = runs_of(queue, 1)
    assert pipeline.room(0) == 2
    assert pipeline.thread_stuck(run) == 1
    assert pipeline.room(0) == 1
    pipeline.thread_returned(run)
    assert pipeline.room(0) == 2


def test_a_fifo_queue_is_claimed_only_when_nothing_is_held(memory_bench: Bench) -> None:
    queue = memory_bench.queue(ordering=Ordering.FIFO)
    pipeline = pipeline_of(queue, concurrency=8)
    assert (pipeline.concurrency, pipeline.room(0)) == (1, BATCH)
    pipeline.add(runs_of(queue, 1))
    assert pipeline.room(0) == 0


def test_done_runs_are_acked_by_the_batch(queue: Queue) -> None:
    pipeline = pipeline_of(queue, concurrency=2)
    pipeline.add(runs_of(queue, 2))
    runs = [started(pipeline), started(pipeline)]
    for run in runs:
        assert pipeline.take(run, Stage.RUNNING)
        pipeline.await_ack(run)
    pipeline.close()
    assert pipeline.next_batch(0) == (runs, [])
    assert pipeline.next_batch(0) is None


def test_what_follows_a_fifo_ack_holds_nothing_up_unless_very_much_is_unwritten(memory_bench: Bench) -> None:
    queue = memory_bench.queue(ordering=Ordering.FIFO)
    pipeline = pipeline_of(queue)
    rooms = []
    for _ in range(MAX_UNWRITTEN + 1):
        pipeline.add(runs_of(queue, 1))
        run = started(pipeline)
        assert pipeline.take(run, Stage.RUNNING)
        ack(queue, [run.entry])
        pipeline.await_follow_up(run)
        rooms.append(pipeline.room(0))
    assert rooms == [BATCH] * MAX_UNWRITTEN + [0]
    _, ended = pipeline.next_batch(0) or ([], [])
    assert len(ended) == BATCH
    pipeline.followed_up(BATCH)
    assert (pipeline.room(0), pipeline.busy) == (BATCH, True)
    pipeline.followed_up(MAX_UNWRITTEN + 1 - BATCH)
    assert not pipeline.busy
