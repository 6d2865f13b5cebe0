"""Commands that take batches: each message ends by itself, a poison message buries nobody, and order is kept."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.handlers.batches import Batch, BatchSettings
from millrace.handlers.controls import Reject, Retry, Snooze, Unavailable
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from millrace.worker import Commands, TimeLeft
from millrace.worker.pipeline import Pipeline
from millrace.worker.run import Run, Stage
from millrace.worker.time_left import real_wait
from tests.conftest import Bench, Clock
from tests.worker.conftest import AT_ONCE
from tests.worker.definitions import TYPE
from tests.worker.rigs import BatchRig, TargetRig, worker_of

RETRIES = "delivery { max_attempts: 3  initial_backoff_ms: 1000  max_backoff_ms: 1000  backoff: none }"

DEAD, DONE, READY, SCHEDULED = MessageStatus.DEAD, MessageStatus.DONE, MessageStatus.READY, MessageStatus.SCHEDULED


def test_messages_come_together_and_end_each_by_itself(bench: Bench) -> None:
    def handler(batch: Batch) -> None:
        for item in batch:
            item.result = {"twice": 2 * item.input["n"]}
            match item.input["n"]:
                case 1:
                    item.fail(Retry(after=30))
                case 2:
                    item.fail(Reject("never"))
                case 3:
                    item.fail(Snooze(after=30))
                case 4:
                    item.fail(ValueError("broken"))

    rig = BatchRig(bench, handler)
    ids = rig.send(6)
    counts = rig.drain().counts
    assert [sorted(call) for call in rig.calls] == [[0, 1, 2, 3, 4, 5]]
    assert rig.statuses(ids) == [DONE, SCHEDULED, DEAD, SCHEDULED, SCHEDULED, DONE]
    kept = status(rig.queue(), ids[5]).result
    assert kept is not None
    assert kept.snapshot == b'{"twice":10}'
    assert [rig.entry(ids[n]).attempts for n in (1, 3, 4)] == [1, 0, 1]
    assert (counts["started"], counts["done"], counts["dead"], counts["retried"], counts["snoozed"]) == (6, 2, 1, 2, 1)


def test_no_call_is_given_more_than_its_batch(bench: Bench) -> None:
    rig = BatchRig(bench, lambda _batch: None, size=4)
    ids = rig.send(30)
    rig.drain()
    assert max(map(len, rig.calls)) <= 4
    assert sorted(n for call in rig.calls for n in call) == list(range(30))
    assert set(rig.statuses(ids)) == {MessageStatus.DONE}


def test_one_poison_message_buries_nobody_else(bench: Bench, clock: Clock) -> None:
    """It breaks the whole call once; after that each runs alone, and only its own attempts are used up."""

    def handler(batch: Batch) -> None:
        if 7 in [item.input["n"] for item in batch]:
            raise ValueError("poison")

    rig = BatchRig(bench, handler, RETRIES)
    ids = rig.send(10)
    for _ in range(3):
        rig.drain()
        clock.forward(1_001)
    expected = [MessageStatus.DONE] * 10
    expected[7] = MessageStatus.DEAD
    assert rig.statuses(ids) == expected
    assert sorted(map(len, rig.calls)) == [*[1] * 11, 10], "each that failed with others runs alone"


def test_with_one_attempt_nobody_is_lost_to_another(bench: Bench) -> None:
    def handler(batch: Batch) -> None:
        if batch[0].input["n"] == 3:
            raise ValueError("poison")

    rig = BatchRig(bench, handler, "delivery { max_attempts: 1 }")
    ids = rig.send(5)
    rig.drain()
    assert {len(call) for call in rig.calls} == {1}
    dead = [found is MessageStatus.DEAD for found in rig.statuses(ids)]
    assert dead == [False, False, False, True, False]


def test_a_message_that_cannot_be_rendered_fails_alone(bench: Bench) -> None:
    rig = BatchRig(bench, lambda _batch: None)
    (good,) = rig.send(1)
    (bad,) = enqueue_all(rig.queue(), [Draft(b"not json", key="k")])
    rig.drain()
    assert rig.calls == [[0]]
    assert rig.statuses([good]) == [MessageStatus.DONE]
    assert rig.statuses([bad.message_id]) == [MessageStatus.DEAD]  # type: ignore[union-attr]


def test_in_a_fifo_queue_nothing_is_done_before_what_failed_ahead_of_it(bench: Bench, clock: Clock) -> None:
    failing = {2}

    def handler(batch: Batch) -> None:
        for item in batch:
            if item.input["n"] in failing:
                item.fail(ValueError("broken"))

    rig = BatchRig(bench, handler, f"ordering: fifo  {RETRIES}")
    ids = rig.send(5)
    rig.drain()
    assert rig.calls == [[0, 1, 2, 3, 4]]
    assert rig.statuses(ids) == [DONE, DONE, SCHEDULED, READY, READY]
    assert [rig.entry(ids[n]).attempts for n in (2, 3, 4)] == [1, 0, 0], "those behind it are charged nothing"
    failing.clear()
    clock.forward(1_001)
    rig.drain()
    assert rig.calls[1:] == [[2], [3, 4]]
    assert set(rig.statuses(ids)) == {DONE}


def test_several_targets_are_given_one_message_at_a_time(bench: Bench) -> None:
    rig = TargetRig(
        bench, f"queue Jobs {{ {TYPE}  map_to: command Thing.Do {{ n: n }}  map_to: command Other.Do {{ n: n }} }}"
    )
    calls: list[list[int]] = []
    rig.commands.command("Thing.Do", batch=10)(lambda batch: calls.append([item.input["n"] for item in batch]))
    rig.commands.command("Other.Do")(lambda _given: None)
    enqueue_all(rig.queue(), [Draft(json.dumps({"n": n}).encode()) for n in range(3)])
    rig.drain()
    assert sorted(calls) == [[0], [1], [2]]


def test_steps_and_staged_writes_are_each_item_s_own(bench: Bench, clock: Clock) -> None:
    seen: list[tuple[int, str]] = []

    def handler(batch: Batch) -> None:
        for item in batch:
            n = item.input["n"]
            item.context.once("step", lambda n=n: seen.append((n, "ran")))
            assert item.context.staged is not None
            if n == 0 and item.context.attempt == 1:
                item.fail(Retry(after=1))

    rig = BatchRig(bench, handler, RETRIES)
    ids = rig.send(2)
    rig.drain()
    clock.forward(1_001)
    rig.drain()
    assert sorted(seen) == [(0, "ran"), (1, "ran")], "what a step returned is kept for the next attempt"
    assert set(rig.statuses(ids)) == {MessageStatus.DONE}


def test_one_call_that_finds_its_target_down_is_one_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(batch: Batch) -> None:
        raise Unavailable

    rig = BatchRig(bench, handler)
    failures: list[str] = []
    breakers = rig.drainer._breakers_of(rig.queue(), rig.definitions.queue("Jobs"))
    monkeypatch.setattr(breakers, "failed", failures.append)
    rig.send(8)
    rig.drain()
    assert len(failures) == len(rig.calls)


def test_a_command_that_takes_batches_is_called_alone_with_one() -> None:
    commands = Commands()

    @commands.command("Thing.Do", batch=5, wait_ms=10)
    def handler(batch: Batch) -> list[int]:
        if batch[0].input == 0:
            raise ValueError("broken")
        return [item.input + 1 for item in batch]

    context: Any = None
    assert commands.batch_of("Thing.Do") == BatchSettings(5, 10)
    assert commands.copy().batch_of("Thing.Do") == BatchSettings(5, 10)
    assert commands.run("Thing.Do", 3, context) == 4
    with pytest.raises(ValueError, match="broken"):
        commands.run("Thing.Do", 0, context)
    with pytest.raises(ValueError, match="`batch` is"):
        commands.command("Other.Do", batch=101)


# -- in the pipeline -------------------------------------------------------------------------------------------


def pipeline_of(queue: Queue, size: int, wait_ms: int = 0, concurrency: int = 2) -> Pipeline:
    return Pipeline(queue, concurrency, TimeLeft(), real_wait, batch=BatchSettings(size, wait_ms))


def runs_of(queue: Queue, count: int) -> list[Run]:
    enqueue_all(queue, [Draft(b"{}") for _ in range(count)])
    return [Run(taken, taken.entry) for taken in claim(queue, owner="test", limit=count).claims]


def test_the_first_waits_for_company_until_there_is_enough_or_its_time_is_over(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    waits: list[float] = []

    def wait(_condition: threading.Condition, seconds: float) -> None:
        waits.append(seconds)
        memory_bench.clock.forward(int(seconds * 1000))

    pipeline = Pipeline(queue, 2, TimeLeft(), wait, batch=BatchSettings(5, 200))
    pipeline.add(runs_of(queue, 2))
    assert pipeline.company_poll_ms == 50
    call = pipeline.next_call()
    assert call is not None
    assert (len(call.runs), waits) == (2, [0.2])
    pipeline.add(runs_of(queue, 5))
    full = pipeline.next_call()
    assert full is not None
    assert (len(full.runs), waits) == (5, [0.2]), "a full batch waits for nobody"
    assert pipeline.company_poll_ms == 0


@pytest.mark.parametrize("settings", [{"rate_per_second": 100.0}, {"ordering": Ordering.FIFO}])
def test_nothing_waits_under_a_rate_limit_or_in_a_fifo_queue(memory_bench: Bench, settings: dict[str, Any]) -> None:
    queue = memory_bench.queue(**settings)
    pipeline = pipeline_of(queue, 5, wait_ms=10_000)
    pipeline.add(runs_of(queue, 2))
    call = pipeline.next_call()
    assert call is not None
    assert len(call.runs) == 2


def test_a_free_thread_s_worth_of_batches_is_claimed(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    pipeline = pipeline_of(queue, 10, concurrency=2)
    assert pipeline.room(0) == 20
    pipeline.add(runs_of(queue, 4))
    assert pipeline.room(0) == 16
    assert pipeline.next_call()
    assert pipeline.room(0) == 10, "one of two threads is free"
    pipeline.called()
    assert pipeline.room(0) == 20


def test_a_thread_is_stuck_once_none_of_its_runs_counts(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    pipeline = pipeline_of(queue, 3)
    pipeline.add(runs_of(queue, 3))
    call = pipeline.next_call()
    assert call is not None
    for run in call.runs:
        assert pipeline.start(run, 0, 5)
    first, *others = call.runs
    assert pipeline.take_lost(first) is Stage.RUNNING
    assert pipeline.thread_stuck(first) == 0, "the others still count"
    assert pipeline.take_overdue(5) == others
    assert [pipeline.thread_stuck(run) for run in others] == [1, 1], "one thread, however many it runs"
    assert pipeline.room(0) == 3
    for run in call.runs:
        pipeline.thread_returned(run)
    pipeline.called()
    assert (pipeline.stuck, pipeline.room(0)) == (0, 6)


def test_a_batch_past_its_time_fails_each_and_a_healthy_worker_goes_on(bench: Bench, clock: Clock) -> None:
    """All are charged, and run alone the next time."""
    slow = threading.Event()

    def handler(batch: Batch) -> None:
        if not slow.is_set():
            slow.set()
            clock.forward(11_000)
            worker._endings.time_out()

    rig = BatchRig(bench, handler, f"execution_timeout_seconds: 10  lease_seconds: 30  {RETRIES}")
    ids = rig.send(3)
    worker = worker_of(rig)
    counts = worker.run().counts
    assert (counts["timed_out"], counts["discarded"], counts["done"]) == (3, 3, 0)
    assert [rig.entry(one).attempts for one in ids] == [1, 1, 1]
    clock.forward(1_001)
    rig.drain()
    assert set(rig.statuses(ids)) == {MessageStatus.DONE}
    assert sorted(map(len, rig.calls)) == [1, 1, 1, 3]


def test_a_claim_lost_in_a_batch_ends_its_own_run_alone(bench: Bench) -> None:
    """The others of its call are done, and what came of the lost one is discarded."""

    def handler(batch: Batch) -> None:
        (run,) = [run for run in worker.pipeline.held() if run.claim.message.id == batch[1].context.message_id]
        worker._endings.lose(run)
        assert batch[1].context.cancelled.is_set()
        assert not batch[0].context.cancelled.is_set()

    rig = BatchRig(bench, handler, RETRIES)
    ids = rig.send(3)
    worker = worker_of(rig)
    result = worker.run()
    assert (result.counts["done"], result.counts["lost"], result.counts["discarded"], result.stuck) == (2, 1, 1, 0)
    assert sorted(rig.statuses(ids)) == sorted([DONE, DONE, MessageStatus.IN_FLIGHT])


def test_a_batch_cut_by_the_deadline_is_given_back_uncharged(bench: Bench) -> None:
    """The worker's time is over while it runs: nothing of it counts or is charged; its thread is left behind once."""
    stuck: list[int] = []
    left: list[int | None] = [None]

    def handler(_batch: Batch) -> None:
        left[0] = AT_ONCE.cut_ms + 1  # too little to claim again
        worker._endings.cut(began=bench.clock() - 60_000)
        stuck.append(worker.pipeline.stuck)

    rig = BatchRig(bench, handler, RETRIES)
    ids = rig.send(3)
    worker = worker_of(rig, TimeLeft(lambda: left[0]))
    counts = worker.run().counts
    assert (stuck, counts["cut"], counts["discarded"], counts["done"]) == ([1], 3, 3, 0)
    assert [rig.entry(one).attempts for one in ids] == [0, 0, 0]
    assert rig.statuses(ids) == [READY, READY, READY]
