"""Every schedule within the bound comes once, and a printed one can be repeated."""

from __future__ import annotations

import pytest

from millrace.model.errors import StoreUnavailable
from millrace.stores.interface import APPLIED, Unknown
from millrace.testing.schedules import Schedule, ScheduledFault, every_schedule, without_answer

OPTIONS = list(ScheduledFault)


def three_points(schedule: Schedule) -> None:
    for _ in range(3):
        schedule.choose(OPTIONS)


@pytest.mark.parametrize(("faults", "schedules"), [(1, 1 + 3 * 3), (2, 1 + 3 * 3 + 3 * 9), (3, 4**3)])
def test_every_schedule_comes_once(faults: int, schedules: int) -> None:
    found = [tuple(schedule.chosen) for schedule in every_schedule(faults, three_points)]
    assert len(found) == len(set(found)) == schedules
    assert max(sum(choice > 0 for choice in chosen) for chosen in found) == faults


def test_a_schedule_is_repeated_by_its_choices() -> None:
    schedule = Schedule([0, 3], faults=1)
    assert [schedule.choose(OPTIONS) for _ in range(3)] == [
        ScheduledFault.NONE,
        ScheduledFault.STALL,
        ScheduledFault.NONE,
    ]
    assert schedule.short == [0, 3]


def test_a_lost_answer_looks_as_the_stores_own() -> None:
    (one, other) = without_answer("end_entries", [APPLIED, APPLIED])
    assert isinstance(one, Unknown)
    assert isinstance(other, Unknown)
    assert isinstance(without_answer("transact", APPLIED), Unknown)
    assert without_answer("settle", None) is None
    with pytest.raises(StoreUnavailable):
        without_answer("get_messages", {})
