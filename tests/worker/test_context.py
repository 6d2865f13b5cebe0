"""The context: a run's own time, log fields and workflow state."""

from __future__ import annotations

from random import Random
from unittest import mock

import pytest

from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StaleClaim, StaleState, StoreUnavailable
from millrace.model.queue_spec import MAX_BODY_BYTES, RetryPolicy
from millrace.worker import RunContext
from tests.conftest import Bench
from tests.worker.conftest import ahead_of, drain, put


def test_a_run_knows_how_long_it_may_still_take(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=60, lease_seconds=300)  # so that nobody takes it over meanwhile
    put(queue)
    left: list[int] = []

    def handle(context: RunContext) -> None:
        bench.clock.forward(20_000)
        left.append(context.remaining_ms())
        bench.clock.forward(50_000)
        left.append(context.remaining_ms())

    drain(queue, handle)
    assert left == [40_000, 0]


def test_a_body_larger_than_a_worker_reads_is_a_dead_letter_unread(memory_bench: Bench) -> None:
    """Its queue took uploads, and was given a type and a target since."""
    queue = memory_bench.queue(max_body_bytes=100 * 1024 * 1024)
    put(queue, bytes(MAX_BODY_BYTES + 1))
    drain(queue, lambda context: context.body)
    (dead,) = list_dead_letters(queue).items
    assert (dead.reason.value, dead.attempts) == ("rejected", 1)
    assert "pull it by the API" in dead.error


def test_while_s3_is_silent_only_what_lies_there_waits_and_nothing_is_charged(memory_bench: Bench) -> None:
    queue = memory_bench.queue(delivery=RetryPolicy(max_attempts=2))
    large = put(queue, Random(1).randbytes(100_000)).message_id
    small = put(queue).message_id
    silent = mock.patch.object(memory_bench.blobs, "get", side_effect=StoreUnavailable("SlowDown"))
    with silent:
        for _ in range(4):  # more often than it has attempts
            drain(queue, lambda context: context.body)
            memory_bench.clock.forward(100_000)
    waiting = status(queue, large)
    assert waiting.entry is not None
    assert (waiting.entry.attempts, waiting.history, waiting.entry.deliveries) == (0, (), 4)
    assert status(queue, small).status is MessageStatus.DONE
    drain(queue, lambda context: context.body)
    assert status(queue, large).status is MessageStatus.DONE


def test_every_log_line_names_the_run_and_never_its_body(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    receipt = put(queue, b'{"card":"4111"}', correlation_id="corr-2")
    seen: list[dict[str, object]] = []
    drain(queue, lambda context: seen.append(context.fields))
    assert seen == [
        {
            "tenant": memory_bench.tenant,
            "queue": "Jobs",
            "message_id": receipt.message_id,
            "attempt": 1,
            "claim_version": 1,
            "correlation_id": "corr-2",
        }
    ]


def test_the_workflow_state_is_kept_from_run_to_run(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    seen: list[dict[str, object]] = []

    def handle(context: RunContext) -> None:
        seen.append(context.state.read())
        context.state.write({"step": context.attempt})
        context.state.write({"step": context.attempt, "again": True})
        if context.attempt == 1:
            raise ValueError

    for _ in range(2):
        drain(queue, handle)
        bench.clock.forward(60_000)
    assert seen == [{}, {"step": 1, "again": True}]


def test_a_run_whose_claim_is_lost_cannot_write_its_state(bench: Bench) -> None:
    from millrace.engine.claim import claim

    queue = bench.queue(lease_seconds=30)
    put(queue)
    raised: list[type[Exception]] = []

    def handle(context: RunContext) -> None:
        context.state.write({"step": 1})
        claim(ahead_of(bench, queue), owner="another")
        with pytest.raises((StaleClaim, StaleState)) as stale:
            context.state.write({"step": 2})
        raised.append(stale.type)

    drain(queue, handle)
    assert raised == [StaleClaim]
