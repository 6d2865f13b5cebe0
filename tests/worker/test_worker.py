"""The worker: what it claims and when, in which order it runs, and how it ends."""

from __future__ import annotations

import threading

from millrace.engine.enqueue import enqueue_all
from millrace.engine.inspect import list_claims
from millrace.engine.operate import pause
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from millrace.worker import RunContext, TimeLeft
from tests.conftest import Bench
from tests.worker.conftest import drain, put, put_all, worker


def test_every_message_runs_once_and_is_done(bench: Bench) -> None:
    queue = bench.queue()
    receipts = put_all(queue, 60)
    seen: list[int] = []
    drained = drain(queue, lambda context: seen.append(context.json()["n"]))
    assert sorted(seen) == list(range(60))
    assert drained.counts["done"] == 60
    assert all(status(queue, receipt.message_id).status is MessageStatus.DONE for receipt in receipts)
    assert queue.state(fresh=True).depth <= queue.state().spendable_grants(bench.clock())


def test_no_more_run_at_once_than_may(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=3)
    enqueue_all(queue, [Draft(b"{}") for _ in range(20)])
    lock, now, highest, order = threading.Lock(), 0, 0, 0
    meet = threading.Barrier(3)

    def handle(_context: RunContext) -> None:
        nonlocal now, highest, order
        with lock:
            now += 1
            order += 1
            highest, mine = max(highest, now), order
        if mine <= 3:
            meet.wait(10)
        with lock:
            now -= 1

    drain(queue, handle, concurrency=8)
    assert highest == 3


def test_the_next_batch_is_claimed_while_this_one_runs(memory_bench: Bench) -> None:
    """With quick handlers the buffer is filled ahead: claims happen while a run is still going."""
    queue = memory_bench.queue(max_concurrency=1)
    enqueue_all(queue, [Draft(b"{}") for _ in range(30)])
    held_during_run: list[int] = []

    def handle(context: RunContext) -> None:
        held_during_run.append(len(list_claims(queue, limit=50).items))

    drain(queue, handle, concurrency=1)
    assert len(held_during_run) == 30
    assert max(held_during_run) > 1


# -- order ------------------------------------------------------------------------------------------------------


def test_fifo_runs_in_order_and_acks_each_before_the_next_starts(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    receipts = put_all(queue, 30)
    seen: list[int] = []
    early: list[int] = []

    def handle(context: RunContext) -> None:
        n = context.json()["n"]
        if n and status(queue, receipts[n - 1].message_id).status is not MessageStatus.DONE:
            early.append(n)
        seen.append(n)

    drain(queue, handle)
    assert seen == list(range(30))
    assert not early


def test_fifo_starts_the_next_while_the_result_before_it_is_written(memory_bench: Bench) -> None:
    queue = memory_bench.queue(ordering=Ordering.FIFO)
    put_all(queue, 3)
    put_results, second_runs = memory_bench.store.put_results, threading.Event()
    in_time: list[bool] = []

    def only_once_the_second_runs(results):  # type: ignore[no-untyped-def]
        in_time.append(second_runs.wait(10))
        put_results(results)

    def handle(context: RunContext) -> int:
        if context.json()["n"] == 1:
            second_runs.set()
        return 1

    memory_bench.store.put_results = only_once_the_second_runs  # type: ignore[method-assign]
    assert drain(queue, handle).counts["done"] == 3
    assert in_time
    assert all(in_time)
    assert queue.state(fresh=True).done == 3, "nothing is left behind when the worker ends"


def test_per_key_keeps_the_order_of_each_key(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.PER_KEY, shards=2)
    enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode(), key=f"k{n % 3}") for n in range(24)])
    lock = threading.Lock()
    seen: dict[str, list[int]] = {}

    def handle(context: RunContext) -> None:
        with lock:
            seen.setdefault(context.claim.entry.key, []).append(context.json()["n"])

    drain(queue, handle)
    assert seen == {f"k{key}": list(range(key, 24, 3)) for key in range(3)}


# -- time -------------------------------------------------------------------------------------------------------


def test_with_little_time_left_nothing_is_claimed(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    drained = drain(queue, lambda _context: None, time_left=TimeLeft(lambda: 9_000))
    assert drained.counts["started"] == 0
    assert drained.reason == "deadline"


def test_when_time_grows_short_the_unstarted_is_released_uncharged(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=1)
    receipts = put_all(queue, 6)
    left = [60_000]
    drained = drain(
        queue,
        lambda context: left.__setitem__(0, 5_000) if context.message_id == receipts[3].message_id else None,
        concurrency=1,
        time_left=TimeLeft(lambda: left[0]),
    )
    statuses = [status(queue, receipt.message_id) for receipt in receipts]
    assert [found.status for found in statuses][:4] == [MessageStatus.DONE] * 4
    assert all(found.status in (MessageStatus.READY, MessageStatus.DONE) for found in statuses)
    assert all(found.entry.attempts == 0 for found in statuses if found.entry)
    assert drained.reason == "deadline"
    assert not list_claims(queue).items


def test_stop_lets_what_runs_finish_and_gives_back_the_rest(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    receipts = put_all(queue, 5)

    def handle(context: RunContext) -> None:
        if context.message_id == receipts[1].message_id:
            job.stop(reason="SIGTERM")

    job = worker(queue, handle)
    drained = job.run()
    assert [status(queue, receipt.message_id).status for receipt in receipts] == [MessageStatus.DONE] * 2 + [
        MessageStatus.READY
    ] * 3
    assert drained.reason == "SIGTERM"
    assert not list_claims(queue).items


def test_a_worker_waits_for_work_that_becomes_due_in_its_time(bench: Bench) -> None:
    queue = bench.queue()
    put(queue, not_before=bench.clock() + 5_000)
    put(queue, not_before=bench.clock() + 600_000)
    starts: list[int] = []
    begun = bench.clock()

    def wait(_condition: object, seconds: float) -> None:
        bench.clock.forward(round(seconds * 1000))

    drained = drain(queue, lambda context: starts.append(context.started_at), patience_ms=20_000, wait=wait)
    assert starts == [begun + 5_000]
    assert drained.next_at is None or drained.next_at > bench.clock() + 20_000


def test_a_paused_queue_is_left_alone(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    pause(queue, "operator")
    assert drain(queue, lambda _context: None).counts["started"] == 0
