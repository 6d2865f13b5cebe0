"""Runners: what a handler is given, what becomes of its result, and when a run may start."""

from __future__ import annotations

import pytest

from millrace.engine.status import MessageStatus, status
from millrace.model.queue_spec import Jitter, RetryPolicy
from millrace.worker import Context
from millrace.worker.runners import SNAPSHOT_BYTES, snapshot
from tests.conftest import Bench
from tests.worker.conftest import drain, put, put_all, worker


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


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (None, b""),
        (b"\x00", b"\x00"),
        ({"n": "é"}, '{"n":"é"}'.encode()),
        (b"x" * SNAPSHOT_BYTES, b"x" * SNAPSHOT_BYTES),
        (b"x" * (SNAPSHOT_BYTES + 1), b""),
    ],
)
def test_a_result_is_kept_as_bytes_up_to_a_limit(result: object, kept: bytes) -> None:
    assert snapshot(result) == kept


def test_a_run_does_not_start_when_its_claim_is_about_to_run_out(bench: Bench) -> None:
    queue = bench.queue(max_concurrency=1, lease_seconds=10)
    receipts = put_all(queue, 2)
    started: list[str] = []

    def handle(context: Context) -> None:
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
