"""What a run says while it writes: rates and an estimate from the first rows on, and nothing once it is over."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from millrace.spark import progress
from millrace.spark.progress import Moment, watched


def test_a_line_has_rates_throttling_and_an_estimate() -> None:
    counts = {"inserted": 1500.0, "rejected": 500.0, "units": 4000.0, "throttled": 12.0, "bytes": 250.0}
    line = Moment(10.0, counts, 3, 8, 1_000).line()
    assert line.split("  ")[-7:] == [
        "tasks 3/8", "inserted 1,500", "rejected 500", "200 rows/s", "400 units/s", "throttled 12",
        "25%, about 30 s left",
    ]  # fmt: skip


def test_before_the_first_row_there_is_no_estimate_and_at_the_end_none_either() -> None:
    assert "no row written yet" in Moment(1.0, {}).line()
    assert "left" not in Moment(0.0, {}).line()
    assert "left" not in Moment(9.0, {"bytes": 2_000.0}, bytes=1_000.0).line()


@pytest.mark.parametrize(("seconds", "said"), [(89, "89 s"), (600, "10 min"), (7_200, "2.0 h")])
def test_an_estimate_is_said_in_fitting_units(seconds: float, said: str) -> None:
    assert Moment(seconds, {}, 1, 2).line().endswith(f"50%, about {said} left"), "by tasks where bytes are unknown"


def test_a_bar_is_as_long_as_the_share_that_is_done() -> None:
    assert Moment(1.0, {}, 1, 2).bar().startswith("[" + "#" * 12 + "." * 12 + "]")


def test_lines_are_said_until_the_block_ends_however_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    twice, said = threading.Semaphore(0), []

    def say(line: str) -> None:
        said.append(line)
        twice.release()

    def run() -> None:
        with watched(lambda seconds: Moment(seconds, {"inserted": 1.0}), say):
            assert all(twice.acquire(timeout=60) for _ in range(2))
            raise RuntimeError("the run failed")

    with pytest.raises(RuntimeError, match="the run failed"):
        run()
    assert all("inserted 1" in line for line in said)
    assert not any(thread.name == "progress" for thread in threading.enumerate())


class Terminal(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_a_bar_and_a_log_gets_lines(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    monkeypatch.setattr(progress, "BAR_EVERY_S", 0.001)
    looked = threading.Semaphore(0)

    def look(seconds: float) -> Moment:
        looked.release()
        return Moment(seconds, {"inserted": 1.0}, 1, 2)

    with watched(look, None):
        assert all(looked.acquire(timeout=60) for _ in range(2))
    text = screen.getvalue()
    assert ("\r\x1b[K[####" in text) is terminal
    assert text.endswith("\r\x1b[K" if terminal else "left\n")
