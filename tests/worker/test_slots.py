"""Slots: the places of a queue's workers, leased and renewed."""

from __future__ import annotations

import pytest

from millrace.model.queue_state import Slot
from millrace.worker.slots import SLOT_LEASE_MS, slot_count, take_slot
from tests.conftest import Bench
from tests.worker.rigs import DrainerRig


@pytest.fixture
def rig(bench: Bench) -> DrainerRig:
    return DrainerRig(bench)


def test_slots_together_hold_the_queues_concurrency(rig: DrainerRig) -> None:
    queue = rig.queue()
    assert slot_count(queue, 4) == 3
    held = [take_slot(queue, 4) for _ in range(4)]
    assert [slot and slot.concurrency for slot in held] == [4, 4, 2, None]
    assert held[1] is not None
    held[1].free()
    again = take_slot(queue, 4, first=2)
    assert again is not None
    assert (again.slot.number, again.concurrency) == (1, 4)


def test_a_kept_slot_outlives_its_lease_and_a_forgotten_one_does_not(bench: Bench, rig: DrainerRig) -> None:
    queue = rig.queue("Others")
    kept = take_slot(queue, 10)
    assert kept is not None
    for _ in range(5):
        bench.clock.forward(SLOT_LEASE_MS - 1)
        assert kept.renew()
        assert take_slot(queue, 10) is None
    bench.clock.forward(SLOT_LEASE_MS)
    assert take_slot(queue, 10) is not None
    assert not kept.renew()


def test_a_killed_worker_leaves_its_slot_within_seconds_whatever_the_queues_lease(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=43_200, max_concurrency=1)
    assert take_slot(queue, 1)
    bench.clock.forward(SLOT_LEASE_MS)
    assert take_slot(queue, 1)


def test_a_surplus_worker_costs_one_read_and_no_write(memory_bench: Bench) -> None:
    queue = memory_bench.queue(max_concurrency=40)
    held = [take_slot(queue, 1) for _ in range(40)]
    assert all(held)
    written: list[Slot] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "take_slot", lambda *given: written.append(given[2]))
        assert take_slot(queue, 1) is None
        assert held[7]
        held[7].free()
        take_slot(queue, 1)
    assert [slot.number for slot in written] == [7], "only what is free is tried"


def test_a_slot_that_another_takes_meanwhile_is_passed_over(memory_bench: Bench) -> None:
    queue = memory_bench.queue(max_concurrency=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "list_slots", lambda *_given: [])
        found = [take_slot(queue, 1) for _ in range(3)]
    assert [slot and slot.slot.number for slot in found] == [0, 1, None]
