"""The pipeline: what a run may come to, and that each ending is written by the claim that earned it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue_all
from millrace.engine.inspect import list_claims
from millrace.engine.operate import pause
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.worker import Context, Reject, Retry, Snooze, TimeLeft
from tests.conftest import Bench
from tests.worker.conftest import drain, put, worker


def test_every_message_runs_once_and_is_done(bench: Bench) -> None:
    queue = bench.queue()
    receipts = enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode()) for n in range(60)])
    seen: list[int] = []
    drained = drain(queue, lambda context: seen.append(context.json()["n"]))
    assert sorted(seen) == list(range(60))
    assert drained.counts["done"] == 60
    assert all(status(queue, receipt.message_id).status is MessageStatus.DONE for receipt in receipts)
    assert queue.state(fresh=True).depth <= queue.state().spendable_grants(bench.clock())


def test_the_result_is_kept_for_repeats(bench: Bench) -> None:
    queue = bench.queue()
    put(queue, idempotency_key="a")
    drain(queue, lambda _context: {"made": 1})
    again = put(queue, idempotency_key="a")
    assert (again.duplicate, again.status, again.result) == (True, MessageStatus.DONE, b'{"made":1}')


def test_a_handler_gets_the_message_and_its_fencing_token(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=3, jitter=Jitter.NONE))
    receipt = put(queue, b'{"a":1}', correlation_id="corr-1", headers={"x": "y"})
    seen: list[tuple[object, ...]] = []

    def handle(context: Context) -> None:
        seen.append((context.message_id, context.version, context.attempt, context.correlation_id, context.body))
        if context.attempt == 1:
            raise RuntimeError("once")

    drained = drain(queue, handle)
    assert drained.next_at is None or drained.next_at >= bench.clock()
    bench.clock.forward(500)
    drain(queue, handle)
    assert seen == [
        (receipt.message_id, 1, 1, "corr-1", b'{"a":1}'),
        (receipt.message_id, 2, 2, "corr-1", b'{"a":1}'),
    ]


def test_five_attempts_keep_the_timetable_and_end_as_a_dead_letter(bench: Bench) -> None:
    timetable = RetryPolicy(max_attempts=5, initial_backoff_ms=1_000, max_backoff_ms=60_000, jitter=Jitter.NONE)
    queue = bench.queue(delivery=timetable)
    receipt = put(queue)
    begun = bench.clock()
    starts: list[int] = []

    def fail(context: Context) -> None:
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

    def later(_context: Context) -> None:
        raise Retry(after=42, reason="not yet")

    drained = drain(queue, later)
    entry = status(queue, receipt.message_id).entry
    assert entry is not None
    assert (entry.attempts, entry.due) == (1, bench.clock() + 42_000)
    assert drained.counts["retried"] == 1


def test_reject_goes_straight_to_the_dead_letters(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)

    def refuse(_context: Context) -> None:
        raise Reject("no such customer")

    assert drain(queue, refuse).counts["dead"] == 1
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.attempts, dead_letter.error) == (
        DeadLetterReason.REJECTED,
        1,
        "no such customer",
    )


def test_snooze_charges_nothing(bench: Bench) -> None:
    queue = bench.queue()
    receipt = put(queue)
    until = datetime.fromtimestamp(bench.clock() / 1000 + 90, UTC)

    def later(_context: Context) -> None:
        raise Snooze(until)

    drain(queue, later)
    entry = status(queue, receipt.message_id).entry
    assert entry is not None
    assert (entry.attempts, entry.due) == (0, bench.clock() + 90_000)


def test_a_result_that_json_cannot_spell_is_a_failed_run(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    drained = drain(queue, lambda _context: {1, 2})
    assert (drained.counts["done"], drained.counts["retried"]) == (0, 1)


def test_an_error_without_text_still_says_its_type(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    put(queue)

    def fail(_context: Context) -> None:
        raise KeyError

    drain(queue, fail)
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.error_type, dead_letter.error) == ("KeyError", "KeyError")


def test_no_more_run_at_once_than_may(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=3)
    enqueue_all(queue, [Draft(b"{}") for _ in range(20)])
    lock, now, most, order = threading.Lock(), 0, 0, 0
    meet = threading.Barrier(3)

    def handle(_context: Context) -> None:
        nonlocal now, most, order
        with lock:
            now += 1
            order += 1
            most, mine = max(most, now), order
        if mine <= 3:
            meet.wait(10)
        with lock:
            now -= 1

    drain(queue, handle, concurrency=8)
    assert most == 3


def test_the_next_batch_is_claimed_while_this_one_runs(memory_bench: Bench) -> None:
    """With quick handlers the buffer is filled ahead: claims happen while a run is still going."""
    queue = memory_bench.queue(max_concurrency=1)
    enqueue_all(queue, [Draft(b"{}") for _ in range(30)])
    held_during_run: list[int] = []

    def handle(context: Context) -> None:
        held_during_run.append(len(list_claims(queue, limit=50).items))

    drain(queue, handle, concurrency=1)
    assert len(held_during_run) == 30
    assert max(held_during_run) > 1


@pytest.fixture
def memory_bench(memory_store, clock, tenant) -> Bench:  # type: ignore[no-untyped-def]
    return Bench(memory_store, clock, tenant)


# -- order ------------------------------------------------------------------------------------------------------
def test_fifo_runs_in_order_and_acks_each_before_the_next_starts(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    receipts = enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode()) for n in range(30)])
    seen: list[int] = []
    early: list[int] = []

    def handle(context: Context) -> None:
        n = context.json()["n"]
        if n and status(queue, receipts[n - 1].message_id).status is not MessageStatus.DONE:
            early.append(n)
        seen.append(n)

    drain(queue, handle)
    assert seen == list(range(30))
    assert not early


def test_fifo_failure_releases_the_rest_uncharged_and_blocks(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, delivery=RetryPolicy(max_attempts=3, jitter=Jitter.NONE))
    receipts = enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode()) for n in range(5)])
    seen: list[int] = []

    def handle(context: Context) -> None:
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


def test_per_key_keeps_the_order_of_each_key(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.PER_KEY, shards=2)
    enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode(), key=f"k{n % 3}") for n in range(24)])
    lock = threading.Lock()
    seen: dict[str, list[int]] = {}

    def handle(context: Context) -> None:
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
    receipts = enqueue_all(queue, [Draft(b"{}") for _ in range(6)])
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
    receipts = enqueue_all(queue, [Draft(b"{}") for _ in range(5)])

    def handle(context: Context) -> None:
        if context.message_id == receipts[1].message_id:
            job.stop(reason="SIGTERM")

    job = worker(queue, handle)
    drained = job.run()
    assert [status(queue, receipt.message_id).status for receipt in receipts] == [MessageStatus.DONE] * 2 + [
        MessageStatus.READY
    ] * 3
    assert drained.reason == "SIGTERM"
    assert not list_claims(queue).items


def test_a_run_still_going_at_the_last_moment_is_given_back_uncharged(bench: Bench) -> None:
    queue = bench.queue()
    receipt = put(queue)
    left = [60_000]
    go_on = threading.Event()

    def handle(context: Context) -> str:
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
    _join_runners()
    assert status(queue, receipt.message_id).status is MessageStatus.READY


def test_a_run_that_had_the_workers_whole_time_is_charged(bench: Bench) -> None:
    """Given back uncharged it would try for ever: it can never finish."""
    queue = bench.queue()
    receipt = put(queue)
    left = [60_000]
    go_on = threading.Event()

    def handle(context: Context) -> None:
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
    _join_runners()


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


# -- claims -----------------------------------------------------------------------------------------------------
def test_a_run_does_not_start_when_its_claim_is_about_to_run_out(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=1, lease_seconds=10)
    receipts = enqueue_all(queue, [Draft(b"{}") for _ in range(2)])
    started: list[str] = []

    def handle(context: Context) -> None:
        started.append(context.message_id)
        if len(started) == 1:
            bench.clock.forward(8_500)  # the claim on the second lives 1.5 s longer: less than the margin

    first = worker(queue, handle, concurrency=1)
    first.pipeline.room = lambda _ahead: 2 if not first.pipeline.busy else 0  # type: ignore[method-assign]
    drained = first.run()
    assert drained.counts["too_late"] == 1
    assert started.count(receipts[1].message_id) == 1  # given back at once, and run under a claim of its own
    entry = status(queue, receipts[1].message_id)
    assert entry.status is MessageStatus.DONE


def test_heartbeat_extends_what_is_held(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(context: Context) -> None:
        for _ in range(10):
            bench.clock.forward(10_000)
            job.heartbeat.beat()
        assert not context.cancelled.is_set()

    job = worker(queue, handle)
    assert job.run().counts["done"] == 1
    assert status(queue, receipt.message_id).status is MessageStatus.DONE


def ahead_of(bench: Bench, queue: Queue) -> Queue:
    """The queue of a rival whose clock is past the lease: moving the worker's own would set off its heartbeat."""
    return Runtime(bench.store, bench.blobs, clock=lambda: bench.clock() + 31_000).queue(bench.tenant, queue.spec)


def test_a_lost_claim_cancels_the_run_and_its_result_is_discarded(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(context: Context) -> str:
        if context.version > 1:
            return "late one"
        (taken,) = claim(ahead_of(bench, queue), owner="another").claims
        job.heartbeat.beat()
        assert context.cancelled.is_set()
        assert taken.entry.version == 2
        return "stale"

    job = worker(queue, handle, concurrency=2)
    drained = job.run()
    assert (drained.counts["lost"], drained.counts["discarded"], drained.counts["done"]) == (1, 1, 0)
    found = status(queue, receipt.message_id)
    assert found.status is MessageStatus.IN_FLIGHT
    assert found.entry is not None
    assert found.entry.owner == "another"


def test_the_ack_of_a_stale_claim_is_refused(bench: Bench) -> None:
    """Without a heartbeat in between the worker does not know; the store does."""
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(_context: Context) -> str:
        claim(ahead_of(bench, queue), owner="another")
        return "stale"

    drained = drain(queue, handle)
    assert (drained.counts["stale"], drained.counts["done"]) == (1, 0)
    assert status(queue, receipt.message_id).status is MessageStatus.IN_FLIGHT


def test_past_its_execution_timeout_a_run_has_failed_whatever_it_gives(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=60, lease_seconds=30)
    receipt = put(queue)

    def handle(context: Context) -> str:
        assert context.deadline == bench.clock() + 60_000
        for _ in range(6):
            bench.clock.forward(10_000)
            job.heartbeat.beat()
        job.heartbeat.check()
        assert context.cancelled.is_set()
        return "late"

    job = worker(queue, handle, concurrency=2)
    drained = job.run()
    found = status(queue, receipt.message_id)
    assert (drained.counts["timed_out"], drained.counts["discarded"], drained.counts["done"]) == (1, 1, 0)
    assert found.entry is not None
    assert found.entry.attempts == 1
    assert found.history[0].error_type == "ExecutionTimeout"


def test_a_worker_whose_threads_are_all_stuck_ends(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=60, max_concurrency=1)
    enqueue_all(queue, [Draft(b"{}") for _ in range(3)])
    go_on = threading.Event()
    ran: list[str] = []

    def handle(context: Context) -> None:
        ran.append(context.message_id)
        bench.clock.forward(61_000)
        job.heartbeat.check()
        go_on.wait(30)

    job = worker(queue, handle, concurrency=1)
    drained = job.run()
    assert (drained.reason, drained.stuck, len(ran)) == ("stuck", 1, 1)
    go_on.set()
    _join_runners()


def test_a_repeated_ack_without_an_answer_is_done(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write happened and its answer was lost: repeating it succeeds again."""
    from millrace.model.errors import StoreUnavailable

    queue = bench.queue()
    put(queue)
    real, lost = bench.store.end_entries, []

    def silent_once(entries):  # type: ignore[no-untyped-def]
        answers = real(entries)
        if not lost:
            lost.append(1)
            raise StoreUnavailable("no answer")
        return answers

    monkeypatch.setattr(bench.store, "end_entries", silent_once)
    drained = drain(queue, lambda _context: None)
    assert (drained.counts["done"], drained.counts["stale"]) == (1, 0)


def _join_runners() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("millrace-"):
            thread.join(10)
