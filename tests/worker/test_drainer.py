"""The drainer: one slot for each drain, a last poll, and more workers for a deep queue."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.aws.functions import EventNotSent
from millrace.engine.status import MessageStatus, status
from millrace.worker import TimeLeft
from millrace.worker.drainer import WakeRequest
from millrace.worker.slots import has_free_slot, take_slot
from millrace.worker.worker import DrainResult, Worker
from tests.conftest import Bench
from tests.worker.rigs import DrainerRig


@pytest.fixture
def rig(bench: Bench) -> DrainerRig:
    return DrainerRig(bench)


def test_without_a_free_slot_a_worker_goes_away(bench: Bench, rig: DrainerRig) -> None:
    message_id = rig.put(1)
    held = [take_slot(rig.queue(), 4) for _ in range(3)]
    assert rig.drainer.drain(rig.wake_request(), TimeLeft()) is None
    assert status(rig.queue(), message_id).status is MessageStatus.READY
    assert held[0] is not None
    held[0].free()
    rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert rig.seen == [1]


def test_the_slot_is_free_again_afterwards(rig: DrainerRig) -> None:
    for n in range(3):
        rig.put(n)
        rig.drainer.drain(rig.wake_request(), TimeLeft())
    slots = [take_slot(rig.queue(), 4) for _ in range(3)]
    assert all(slots)
    assert rig.seen == [0, 1, 2]


def test_a_message_that_found_no_free_slot_is_seen_by_the_last_look(bench: Bench) -> None:
    """It comes after the worker's last poll, and the worker it woke finds every slot taken."""
    rig = DrainerRig(bench)
    others = [take_slot(rig.queue(), 4, first=1) for _ in range(2)]
    rig.put(1)
    free = bench.store.free_slot
    late: list[int] = []

    def free_late(tenant: str, queue: str, slot: Any) -> None:
        if not late:
            late.append(1)
            rig.put(2)
            assert DrainerRig(bench).drainer.drain(rig.wake_request(), TimeLeft()) is None
        free(tenant, queue, slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.store, "free_slot", free_late)
        rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert rig.seen == [1, 2]
    assert all(others)


def test_a_worker_that_found_nothing_looks_once_more_too(memory_bench: Bench) -> None:
    """It was woken for what another has done; what comes while it holds the slot finds no place."""
    rig = DrainerRig(memory_bench)
    others = [take_slot(rig.queue(), 4, first=1) for _ in range(2)]
    free = memory_bench.store.free_slot
    late: list[int] = []

    def free_late(tenant: str, queue: str, slot: Any) -> None:
        if not late:
            late.append(1)
            rig.put(1)
            assert not has_free_slot(rig.queue(), 4)
        free(tenant, queue, slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "free_slot", free_late)
        rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert rig.seen == [1]
    assert all(others)


def test_an_entry_that_is_not_committed_does_not_keep_a_worker(memory_bench: Bench) -> None:
    rig = DrainerRig(memory_bench)
    message_id = rig.put(1)
    del memory_bench.store.messages[message_id]  # type: ignore[attr-defined]
    result = rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert result is not None
    assert (result.reason, rig.seen) == ("idle", [])


def test_what_ends_one_drain_ends_no_other(memory_bench: Bench) -> None:
    """A slot that was lost, or threads that are stuck, belong to one queue."""
    rig = DrainerRig(memory_bench)
    rig.put(1)
    rig.put(2, "Others")
    rig.put(3, "Others")

    def lose_slot(n: int) -> None:
        if n == 1:
            memory_bench.store.slots.clear()  # type: ignore[attr-defined]
            assert take_slot(rig.queue(), 4)
            next(iter(workers)).heartbeat.renew_slot()

    rig.before = lose_slot
    workers: list[Worker] = []
    real = Worker.run

    def run(self: Worker) -> DrainResult:
        workers.append(self)
        return real(self)

    time_left = TimeLeft()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "run", run)
        first = rig.drainer.drain(rig.wake_request(), time_left)
        second = rig.drainer.drain(rig.wake_request("Others"), time_left)
    assert first is not None
    assert second is not None
    assert (first.reason, second.reason, time_left.stopped) == ("slot lost", "idle", False)
    assert sorted(rig.seen) == [1, 2, 3]


def test_a_worker_that_leaves_takes_what_it_left_to_rivals(bench: Bench) -> None:
    """They may have left as well: then nobody would run it until the next wake-up."""
    rig = DrainerRig(bench)
    for n in range(40):
        rig.put(n)
    memory, (pk,) = rig.queue().poll_memory, rig.queue().partitions()
    memory.lost_at[pk] = bench.clock()
    memory.rivals[pk] = {f"gone-{n}": bench.clock() for n in range(9)}
    rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert sorted(rig.seen) == list(range(40))


def test_two_workers_on_one_queue_run_each_message_once(bench: Bench) -> None:
    one, two = DrainerRig(bench), DrainerRig(bench)
    for n in range(60):
        one.put(n)
    threads = [
        threading.Thread(target=rig.drainer.drain, args=(rig.wake_request(slot=slot), TimeLeft()))
        for slot, rig in enumerate((one, two))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.seen + two.seen) == list(range(60))


# -- fan-out ----------------------------------------------------------------------------------------------------


def test_a_deep_queue_calls_more_workers_up_to_its_slots(bench: Bench) -> None:
    called: list[WakeRequest] = []
    rig = DrainerRig(bench, invoke_worker=called.append)
    for n in range(50):
        rig.put(n)
    rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert called == [rig.wake_request(slot=1, fanned=True), rig.wake_request(slot=2, fanned=True)]
    assert len(rig.seen) == 50


def test_a_shallow_queue_and_a_called_worker_call_nobody(bench: Bench) -> None:
    called: list[WakeRequest] = []
    rig = DrainerRig(bench, invoke_worker=called.append)
    rig.put(1)
    rig.drainer.drain(rig.wake_request(), TimeLeft())
    for n in range(50):
        rig.put(n)
    rig.drainer.drain(rig.wake_request(fanned=True), TimeLeft())
    assert not called


def test_a_worker_that_cannot_be_started_leaves_the_work_to_this_one(memory_bench: Bench) -> None:
    def refuse(_request: WakeRequest) -> None:
        raise EventNotSent("worker: TooManyRequestsException")

    rig = DrainerRig(memory_bench, invoke_worker=refuse)
    for n in range(50):
        rig.put(n)
    rig.drainer.drain(rig.wake_request(), TimeLeft())
    assert len(rig.seen) == 50
