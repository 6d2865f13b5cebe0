"""The heartbeat: claims are extended, lost ones cancel their run, and slow runs are ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.inspect import list_claims
from millrace.engine.operate import cancel_message
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Draft
from millrace.worker import RunContext
from millrace.worker.heartbeat import SLOT_BEAT_MS
from millrace.worker.slots import SLOT_LEASE_MS, take_slot
from tests.conftest import Bench
from tests.worker.conftest import ahead_of, put, worker


def test_heartbeat_extends_what_is_held(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(context: RunContext) -> None:
        for _ in range(10):
            bench.clock.forward(10_000)
            job.heartbeat.beat()
        assert not context.cancelled.is_set()

    job = worker(queue, handle)
    assert job.run().counts["done"] == 1
    assert status(queue, receipt.message_id).status is MessageStatus.DONE


def test_a_lost_claim_cancels_the_run_and_its_result_is_discarded(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=30)
    receipt = put(queue)

    def handle(context: RunContext) -> str:
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


def test_past_its_execution_timeout_a_run_has_failed_whatever_it_gives(bench: Bench) -> None:
    queue = bench.queue(execution_timeout_seconds=60, lease_seconds=30)
    receipt = put(queue)

    def handle(context: RunContext) -> str:
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


def test_the_slot_is_renewed_by_its_own_lease_not_by_the_queues(memory_bench: Bench) -> None:
    """The lease of messages may be hours; the heartbeat's own thread renews the slot meanwhile."""
    queue = memory_bench.queue(lease_seconds=43_200, max_concurrency=1)
    slot = take_slot(queue, 1)
    renewed = threading.Event()

    def handle(_context: RunContext) -> None:
        memory_bench.clock.forward(SLOT_BEAT_MS)
        assert renewed.wait(10), "the heartbeat did not renew the slot"

    take = memory_bench.store.take_slot

    def taken(*given: Any) -> bool:
        kept = take(*given)
        renewed.set()
        return kept

    put(queue)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "take_slot", taken)
        assert worker(queue, handle, concurrency=1, slot=slot, heartbeat=True).run().counts["done"] == 1
    (held,) = memory_bench.store.list_slots(memory_bench.tenant, queue.spec.name)
    assert held.until == memory_bench.clock() + SLOT_LEASE_MS


def test_a_lost_slot_ends_the_worker(bench: Bench) -> None:
    """Another worker has its place: with both at work the queue would exceed its concurrency."""
    queue = bench.queue(lease_seconds=30, max_concurrency=4)
    slot = take_slot(queue, 4)
    receipts = enqueue_all(queue, [Draft(b"{}") for _ in range(40)])

    def handle(_context: RunContext) -> None:
        if take_slot(ahead_of(bench, queue), 4):
            job.heartbeat.renew_slot()

    job = worker(queue, handle, concurrency=1, slot=slot)
    result = job.run()
    assert result.reason == "slot lost"
    assert result.counts["done"] < len(receipts)
    assert not list_claims(queue).items


def test_a_run_whose_message_is_cancelled_is_told_with_the_next_heartbeat(bench: Bench) -> None:
    queue = bench.queue()
    message_id = put(queue).message_id
    told: list[bool] = []

    def handle(context: RunContext) -> str:
        cancel_message(queue, message_id, running=True)
        told.append(context.cancelled.is_set())
        working.heartbeat.beat()
        told.append(context.cancelled.is_set())
        return "too late"

    working = worker(queue, handle)
    assert working.run().counts["lost"] == 1
    assert told == [False, True]
    assert status(queue, message_id).status is MessageStatus.PURGED
