"""Runners: what a handler is given, what becomes of its result, and when a run may start."""

from __future__ import annotations

from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StaleClaim
from millrace.model.queue_spec import Jitter, RetryPolicy
from millrace.worker import RunContext
from tests.conftest import Bench
from tests.worker.conftest import drain, put, put_all, worker


def test_a_handler_gets_the_message_and_its_fencing_token(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=3, jitter=Jitter.NONE))
    receipt = put(queue, b'{"a":1}', correlation_id="corr-1", headers={"x": "y"})
    seen: list[tuple[object, ...]] = []

    def handle(context: RunContext) -> None:
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


def test_the_result_is_kept_for_repeats(bench: Bench) -> None:
    queue = bench.queue()
    put(queue, idempotency_key="a")
    drain(queue, lambda _context: {"made": 1})
    again = put(queue, idempotency_key="a")
    assert (again.duplicate, again.status, again.result) == (True, MessageStatus.DONE, b'{"made":1}')


def test_a_result_that_json_cannot_spell_is_a_failed_run(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    drained = drain(queue, lambda _context: {1, 2})
    assert (drained.counts["done"], drained.counts["retried"]) == (0, 1)


def test_a_run_does_not_start_when_its_claim_is_about_to_run_out(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=1, lease_seconds=10)
    receipts = put_all(queue, 2)
    started: list[str] = []

    def handle(context: RunContext) -> None:
        started.append(context.message_id)
        if len(started) == 1:
            bench.clock.forward(8_500)  # the claim on the second lives 1.5 s longer: less than the margin

    first = worker(queue, handle, concurrency=1)
    first.pipeline.room = lambda ahead: 2 if not first.pipeline.busy else 0  # type: ignore[method-assign]
    drained = first.run()
    assert drained.counts["too_late"] == 1
    assert started.count(receipts[1].message_id) == 1  # given back at once, and run under a claim of its own
    entry = status(queue, receipts[1].message_id)
    assert entry.status is MessageStatus.DONE


def test_a_run_that_asks_for_more_time_gets_it(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=10, lease_seconds=30)
    put(queue)
    deadlines: list[int] = []

    def handle(context: RunContext) -> None:
        bench.clock.forward(9_000)
        context.extend(20)
        deadlines.append(context.deadline - bench.clock())
        context.extend(1)  # never nearer
        deadlines.append(context.deadline - bench.clock())
        bench.clock.forward(15_000)
        working.heartbeat.check()

    working = worker(queue, handle)
    assert working.run().counts["done"] == 1
    assert deadlines == [20_000, 20_000]


def test_a_run_that_was_given_up_gets_no_more_time(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=10, lease_seconds=60)
    put(queue)
    raised: list[str] = []

    def handle(context: RunContext) -> None:
        bench.clock.forward(11_000)
        working.heartbeat.check()
        try:
            context.extend(20)
        except StaleClaim as error:
            raised.append(type(error).__name__)

    working = worker(queue, handle)
    assert working.run().counts["timed_out"] == 1
    assert raised == ["StaleClaim"]
