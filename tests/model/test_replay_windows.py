"""A window and what was met in it, as a job keeps them."""

from __future__ import annotations

from millrace.model.replay_windows import (
    SAMPLES,
    ReplayOf,
    ReplayWindow,
    WindowFound,
    WindowSample,
    read_found,
    read_window,
)


def test_a_window_holds_its_first_moment_and_not_its_last() -> None:
    window = ReplayWindow(ReplayOf.ALL, "Jobs", 10, 20)
    assert [window.holds(at) for at in (9, 10, 19, 20)] == [False, True, True, False]
    assert read_window(window.written()) == window


def test_all_is_done_and_dead() -> None:
    assert [of.statuses for of in ReplayOf] == [["done"], ["dead"], ["done", "dead"]]


def test_what_was_met_is_counted_and_the_first_few_are_kept() -> None:
    found = WindowFound()
    for number in range(SAMPLES + 5):
        found = found.met("done").chosen(WindowSample(f"m{number}", "done", number))
    found = found.met("ready").charged(2.5).charged(1)
    assert (found.statuses, found.units) == ({"done": SAMPLES + 5, "ready": 1}, 3.5)
    assert [one.id for one in found.samples] == [f"m{number}" for number in range(SAMPLES)]
    assert read_found(found.written()) == found
    assert read_found("") == WindowFound()
