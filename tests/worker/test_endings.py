"""Endings: each is written once, by the claim that earned it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from random import randbytes

import pytest

from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import Receipt, enqueue_all
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StoreUnavailable
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.worker import Reject, Retry, RunContext, Snooze, TimeLeft
from tests.conftest import Bench
from tests.worker.conftest import ahead_of, drain, join_runners, put, put_all, worker


def test_five_attempts_keep_the_timetable_and_end_as_a_dead_letter(bench: Bench) -> None:
    timetable = RetryPolicy(max_attempts=5, initial_backoff_ms=1_000, max_backoff_ms=60_000, jitter=Jitter.NONE)
    queue = bench.queue(delivery=timetable)
    receipt = put(queue)
    begun = bench.clock()
    starts: list[int] = []

    def fail(context: RunContext) -> None:
        starts.append(context.started_at - begun)
        raise ValueError(f"broken at {context.attempt}")

    for _ in range(40):
        drain(queue, fail)
        bench.clock.forward(500)
    assert starts == [0, 1_000, 3_000, 7_000, 15_000]
    (dead_letter,) = list_dead_letters(queue).items
    assert dead_letter.message.id == receipt.message_id
    assert (dead_letter.reason, dead_letter.attempts, dead_letter.error_type, dead_letter.error) == (
        DeadLetterReason.EXHAUSTED,
        5,
        "ValueError",
        "broken at 5",
    )
    assert [(run.number, run.error, run.started_at - begun) for run in dead_letter.history] == [
        (1, "broken at 1", 0),
        (2, "broken at 2", 1_000),
        (3, "broken at 3", 3_000),
        (4, "broken at 4", 7_000),
        (5, "broken at 5", 15_000),
    ]
    assert status(queue, receipt.message_id).status is MessageStatus.DEAD


def test_retry_names_its_own_wait_and_charges(bench: Bench) -> None:
    queue = bench.queue()
    receipt = put(queue)

    def later(_context: RunContext) -> None:
        raise Retry(after=42, reason="not yet")

    drained = drain(queue, later)
    entry = status(queue, receipt.message_id).entry
    assert entry is not None
    assert (entry.attempts, entry.due) == (1, bench.clock() + 42_000)
    assert drained.counts["retried"] == 1


def test_reject_goes_straight_to_the_dead_letters(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)

    def refuse(_context: RunContext) -> None:
        raise Reject("no such customer")

    assert drain(queue, refuse).counts["dead"] == 1
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.attempts, dead_letter.error) == (
        DeadLetterReason.REJECTED,
        1,
        "no such customer",
    )


def test_a_lost_body_is_a_dead_letter_at_once(bench: Bench) -> None:
    queue = bench.queue()
    (receipt,) = enqueue_all(queue, [Draft(randbytes(100_000))])
    assert isinstance(receipt, Receipt)
    queue.runtime.blobs.objects.clear()  # type: ignore[attr-defined]
    drain(queue, lambda context: context.body)
    (dead_letter,) = list_dead_letters(queue).items
    assert dead_letter.message.id == receipt.message_id
    assert (dead_letter.reason, dead_letter.error_type) == (DeadLetterReason.BODY_LOST, "BodyLost")
    assert [run.error_type for run in dead_letter.history] == ["BodyLost"]


def test_snooze_charges_nothing(bench: Bench) -> None:
    queue = bench.queue()
    receipt = put(queue)
    until = datetime.fromtimestamp(bench.clock() / 1000 + 90, UTC)

    def later(_context: RunContext) -> None:
        raise Snooze(until)

    drain(queue, later)
    entry = status(queue, receipt.message_id).entry
    assert entry is not None
    assert (entry.attempts, entry.due) == (0, bench.clock() + 90_000)


def test_an_error_without_text_still_says_its_type(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    put(queue)

    def fail(_context: RunContext) -> None:
        raise KeyError

    drain(queue, fail)
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.error_type, dead_letter.error) == ("KeyError", "KeyError")


def test_fifo_failure_releases_the_rest_uncharged_and_blocks(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, delivery=RetryPolicy(max_attempts=3, jitter=Jitter.NONE))
    receipts = put_all(queue, 5)
    seen: list[int] = []

    def handle(context: RunContext) -> None:
        seen.append(context.json()["n"])
        if seen == [0, 1]:
            raise RuntimeError("once")

    first = drain(queue, handle)
    assert seen == [0, 1]
    assert first.counts["released"] == 3
    for receipt in receipts[2:]:
        entry = status(queue, receipt.message_id).entry
        assert entry is not None
        assert (entry.attempts, entry.token) == (0, "")
    bench.clock.forward(500)
    drain(queue, handle)
    assert seen == [0, 1, 1, 2, 3, 4]


def test_fifo_results_that_cannot_be_kept_stop_nothing(memory_bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    queue = memory_bench.queue(ordering=Ordering.FIFO)
    receipts = put_all(queue, 3)

    def refuse(_results: object) -> None:
        raise StoreUnavailable("no answer")

    memory_bench.store.put_results = refuse  # type: ignore[method-assign, assignment]
    assert drain(queue, lambda _context: 1).counts["done"] == 3
    assert all(status(queue, receipt.message_id).status is MessageStatus.DONE for receipt in receipts)
    assert "results could not be kept" in caplog.text


# -- acks -------------------------------------------------------------------------------------------------------


def test_the_ack_of_a_stale_claim_is_refused(bench: Bench) -> None:
    """Without a heartbeat in between the worker does not know; the store does."""
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(_context: RunContext) -> str:
        claim(ahead_of(bench, queue), owner="another")
        return "stale"

    drained = drain(queue, handle)
    assert (drained.counts["stale"], drained.counts["done"]) == (1, 0)
    assert status(queue, receipt.message_id).status is MessageStatus.IN_FLIGHT


def test_a_repeated_ack_without_an_answer_is_done(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write happened and its answer was lost: repeating it succeeds again."""
    queue = bench.queue()
    put(queue)
    real = bench.store.end_entries
    lost: list[int] = []

    def silent_once(entries):  # type: ignore[no-untyped-def]
        answers = real(entries)
        if not lost:
            lost.append(1)
            raise StoreUnavailable("no answer")
        return answers

    monkeypatch.setattr(bench.store, "end_entries", silent_once)
    drained = drain(queue, lambda _context: None)
    assert (drained.counts["done"], drained.counts["stale"]) == (1, 0)


# -- runs that are given up -----------------------------------------------------------------------------------


def test_a_run_still_going_at_the_last_moment_is_given_back_uncharged(bench: Bench) -> None:
    queue = bench.queue()
    receipt = put(queue)
    left = [60_000]
    go_on = threading.Event()

    def handle(context: RunContext) -> str:
        bench.clock.forward(1_000)
        left[0] = 1_000
        job.stop(grace_s=0, reason="SIGTERM")
        context.cancelled.wait(30)
        go_on.wait(30)
        return "too late"

    job = worker(queue, handle, time_left=TimeLeft(lambda: left[0]))
    drained = job.run()
    found = status(queue, receipt.message_id)
    assert (drained.counts["cut"], drained.stuck) == (1, 1)
    assert found.status is MessageStatus.READY
    assert found.entry is not None
    assert found.entry.attempts == 0
    go_on.set()
    join_runners()
    assert status(queue, receipt.message_id).status is MessageStatus.READY


def test_a_run_that_had_the_workers_whole_time_is_charged(bench: Bench) -> None:
    """Given back uncharged it would try for ever: it can never finish."""
    queue = bench.queue()
    receipt = put(queue)
    left = [60_000]
    go_on = threading.Event()

    def handle(context: RunContext) -> None:
        bench.clock.forward(58_500)
        left[0] = 1_500
        job.pipeline.halt()
        go_on.wait(30)

    job = worker(queue, handle, time_left=TimeLeft(lambda: left[0]))
    drained = job.run()
    entry = status(queue, receipt.message_id).entry
    assert entry is not None
    assert (entry.attempts, drained.counts["timed_out"]) == (1, 1)
    go_on.set()
    join_runners()


def test_a_worker_whose_threads_are_all_stuck_ends(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=60, max_concurrency=1)
    enqueue_all(queue, [Draft(b"{}") for _ in range(3)])
    go_on = threading.Event()
    ran: list[str] = []

    def handle(context: RunContext) -> None:
        ran.append(context.message_id)
        bench.clock.forward(61_000)
        job.heartbeat.check()
        go_on.wait(30)

    job = worker(queue, handle, concurrency=1)
    drained = job.run()
    assert (drained.reason, drained.stuck, len(ran)) == ("stuck", 1, 1)
    go_on.set()
    join_runners()
