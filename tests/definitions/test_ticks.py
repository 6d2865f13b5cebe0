"""Ticks: the same whoever asks from where, also around changes of the clock; and rules that are none."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest

from millrace.definitions.ticks import cron_problem, ticks, timezone_problem

MINUTE = 60_000
#: Around each, clocks are changed: by an hour, and by half of one.
CHANGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
}


@pytest.mark.parametrize("cron", ["*/30 * * * *", "30 2 * * *", "* 2 * * *", "15 */2 * * *", "45 1,2 * * *"])
@pytest.mark.parametrize("zone", CHANGES)
def test_a_tick_does_not_depend_on_where_one_begins_to_look(cron: str, zone: str) -> None:
    for day in CHANGES[zone]:
        begin = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() * 1000) - 12 * 60 * MINUTE
        end = begin + 36 * 60 * MINUTE
        every = list(islice(ticks(cron, zone, begin), 3_000))
        assert every == sorted(set(every))
        for after in range(begin, end, 17 * MINUTE):
            later = [tick for tick in every if tick > after][:3]
            assert list(islice(ticks(cron, zone, after), 3)) == later, (day, after)


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("0 3 * * *", ""),
        ("*/5 9-17 * * MON-FRI", ""),
        ("61 * * * *", "the minute is wrong"),
        ("0 3 * *", "5 fields"),
        ("0 0 3 * * *", "not 6"),
        ("@daily", "not 1"),
        ("0 0 30 2 *", "day-of-month"),
        ("* * */20 * 1L", "never comes"),
    ],
)
def test_a_rule_that_is_none_is_told_why(cron: str, says: str) -> None:
    problem = cron_problem(cron)
    assert says in problem if says else problem == ""


def test_a_time_zone_has_to_exist() -> None:
    assert timezone_problem("Europe/Berlin") == ""
    for name in ("Europe/Berln", "", "../etc/passwd", "Mars/Phobos"):
        assert timezone_problem(name)


def test_a_tick_is_later_than_what_it_comes_after() -> None:
    noon = int(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp() * 1000)
    assert next(ticks("0 * * * *", "UTC", noon)) == noon + 60 * MINUTE
    assert next(ticks("0 * * * *", "UTC", noon - 1)) == noon
