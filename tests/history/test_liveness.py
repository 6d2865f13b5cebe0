"""The checker finds what runs too often and what is left standing, and blames no queue that is merely busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from millrace.history.checker import check_history
from millrace.history.log import HistoryEvent
from millrace.history.records import BrokenPromise, Fault, HistoryRecord
from millrace.model.queue_spec import Ordering

MINUTE = 60_000


def record(at: int, event: str, message: str = "m", version: int = 1, **more: Any) -> HistoryRecord:
    return HistoryRecord(at, HistoryEvent(event), message, version, "w", "Q", **more)


def accepted(at: int, message: str = "m", **more: Any) -> HistoryRecord:
    return record(at, "accepted", message, 0, **more)


def life(at: int, message: str = "m", start: int = 0, **more: Any) -> list[HistoryRecord]:
    """Accepted, and done at once when it is started."""
    start = start or at + 1
    steps = [
        record(start, "started", message),
        record(start + 1, "ending", message),
        record(start + 2, "done", message),
    ]
    return [accepted(at, message, **more), *steps]


def found(history: list[HistoryRecord], **options: Any) -> list[BrokenPromise]:
    return list(check_history(history, complete=False, **options).findings)


def runs(*events: str) -> list[HistoryRecord]:
    """A message of three attempts, with one run for each of these ends; none is a worker that was lost."""
    history = [accepted(0, max_attempts=3)]
    for version, event in enumerate(events, 1):
        history.append(record(version * 100, "started", version=version))
        if event:
            history.append(record(version * 100 + 9, event, version=version, due=version * 100 + 10))
    return history


# -- no more runs than are allowed ----------------------------------------------------------------------------------
def test_more_runs_than_max_attempts_are_found_with_what_shows_them() -> None:
    (finding,) = found(runs("failed", "", "failed", "failed"))
    assert (finding.fault, finding.message) == (Fault.TOO_MANY_RUNS, "m")
    assert finding.shown_by.startswith("4 runs, 3 allowed: started version 1 by w at 100, ")


@pytest.mark.parametrize("free", ["released", "stale"])
def test_what_was_given_back_or_refused_as_stale_is_not_charged(free: str) -> None:
    assert found(runs("failed", free, "failed", free, "failed")) == []


def test_without_max_attempts_nothing_is_judged() -> None:
    first, *rest = runs("failed", "failed", "failed", "failed")
    assert found([replace(first, max_attempts=0), *rest]) == []


def test_a_setting_that_was_raised_counts_for_the_whole_queue() -> None:
    history = runs("failed", "failed", "failed", "failed")
    assert found([*history, *life(500, "n", max_attempts=4)]) == []
    other = [replace(one, queue="Other") for one in life(500, "n", max_attempts=4)]
    assert [finding.fault for finding in found([*history, *other])] == [Fault.TOO_MANY_RUNS]


# -- what may run, runs ---------------------------------------------------------------------------------------------
def test_a_message_that_is_left_while_later_ones_run_stood_still() -> None:
    late = life(MINUTE + 10, "late")
    (never,) = found([accepted(10), *late])
    assert (never.fault, never.message) == (Fault.STOOD_STILL, "m")
    assert never.shown_by == (
        "could run since 10, was never started; late came at 60010: started version 1 by w at 60011"
    )
    (at_last,) = found([*life(10, start=5 * MINUTE), *late])
    assert "could run since 10, waited until 300000" in at_last.shown_by


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(lambda: [*life(10, start=5 * MINUTE), *life(20, "n", start=2 * MINUTE)], id="a backlog"),
        pytest.param(lambda: [*life(10, start=5 * MINUTE), *life(MINUTE + 10, "n", 5 * MINUTE)], id="in turn"),
        pytest.param(lambda: [*life(10, start=MINUTE), *life(MINUTE + 10, "n")], id="soon enough"),
        pytest.param(lambda: [accepted(10), *life(MINUTE + 9, "n")], id="came too early to show it"),
        pytest.param(lambda: [accepted(10, due=9 * MINUTE), *life(2 * MINUTE, "n")], id="not due yet"),
        pytest.param(lambda: [accepted(10, priority=1), *life(2 * MINUTE, "n", priority=2)], id="less important"),
        pytest.param(lambda: [accepted(10), record(20, "purged"), *life(2 * MINUTE, "n")], id="purged"),
        pytest.param(lambda: [accepted(10), record(9, "started"), *life(2 * MINUTE, "n")], id="running, or lost"),
    ],
)
def test_nothing_is_blamed_on(history: Callable[[], list[HistoryRecord]]) -> None:
    assert found(history()) == []


def test_another_queue_shows_nothing() -> None:
    busy = [replace(one, queue="Other") for one in life(2 * MINUTE, "n")]
    tenant = [replace(one, tenant="other") for one in life(2 * MINUTE, "other")]
    assert found([accepted(10), *busy, *tenant]) == []


@pytest.mark.parametrize("event", ["failed", "released"])
def test_what_was_given_back_and_is_due_must_run_again(event: str) -> None:
    history = [accepted(0), record(5, "started"), record(9, event, due=1_000)]
    assert found([*history, *life(MINUTE + 999, "n")]) == []
    (finding,) = found([*history, *life(MINUTE + 1_000, "n")])
    assert finding.shown_by.startswith("could run since 1000, was never started")
    again = record(2_000, "started", version=2)
    assert found([*history, again, *life(MINUTE + 1_000, "n")]) == []


def test_a_retry_without_its_due_time_is_not_judged() -> None:
    history = [accepted(0), record(5, "started"), record(9, "failed")]
    assert found([*history, *life(9 * MINUTE, "n")]) == []


def test_in_an_ordered_queue_a_message_waits_for_what_is_before_it() -> None:
    first = accepted(0, key="a", sequence=1), record(5, "started")
    behind = accepted(1, "behind", key="a", sequence=2)
    other = life(4 * MINUTE, "other", key="b", sequence=3)
    assert found([*first, behind, *other], ordering=Ordering.PER_KEY) == []
    ended = record(6, "ending"), record(7, "done")
    (finding,) = found([*first, *ended, behind, *other], ordering=Ordering.PER_KEY)
    assert finding.message == "behind"
    assert finding.shown_by.startswith("could run since 7,")


def test_the_bound_can_be_set_and_the_look_turned_off() -> None:
    history = [accepted(0), *life(2_000, "n")]
    assert found(history) == []
    assert [finding.fault for finding in found(history, stalled_after_ms=2_000)] == [Fault.STOOD_STILL]
    assert found([accepted(0), *life(2 * MINUTE, "n")], stalled_after_ms=0) == []
