"""Slots: the places of a queue's workers, leased and renewed."""

from __future__ import annotations

import pytest

from millrace.worker.slots import slot_count, take_slot
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
        bench.clock.forward(20_000)
        assert kept.renew()
        assert take_slot(queue, 10) is None
    bench.clock.forward(31_000)
    assert take_slot(queue, 10) is not None
    assert not kept.renew()
