"""The drainer: one slot for each drain, a last poll, and more workers for a deep queue."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.engine.status import MessageStatus, status
from millrace.worker import TimeLeft
from millrace.worker.drainer import WakeRequest
from millrace.worker.slots import take_slot
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
    free, late = bench.store.free_slot, []

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
