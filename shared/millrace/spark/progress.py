"""What a run says while it writes: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from millrace.spark.progress_channel import RunCounts
from millrace.spark.rows import RowOutcome

EVERY_S, BAR_EVERY_S = 5.0, 1.0
BAR = 24


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a run is. Rows and units are of all tries of tasks that were heard of: a hint, not the report."""

    seconds: float
    counts: RunCounts
    tasks_done: int = 0
    tasks: int = 0
    bytes: float = 0.0  #: of the source; 0 where nobody can tell

    @property
    def rows(self) -> float:
        return sum(self.counts.get(outcome, 0.0) for outcome in RowOutcome)

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1: by the bytes of its rows, else by its finished tasks."""
        if self.bytes:
            return min(self.counts.get("bytes", 0.0) / self.bytes, 1.0)
        return self.tasks_done / self.tasks if self.tasks else 0.0

    def line(self) -> str:
        seconds = max(self.seconds, 0.001)
        outcomes = "  ".join(
            f"{outcome} {int(self.counts[outcome]):,}" for outcome in RowOutcome if self.counts.get(outcome)
        )
        parts = [
            f"{self.seconds:6.0f} s",
            f"tasks {self.tasks_done}/{self.tasks}",
            outcomes or "no row written yet",
            f"{self.rows / seconds:,.0f} rows/s",
            f"{self.counts.get('units', 0.0) / seconds:,.0f} units/s",
        ]
        if self.counts.get("throttled"):
            parts.append(f"throttled {int(self.counts['throttled']):,}")
        if 0 < self.share < 1:
            parts.append(f"{self.share:.0%}, about {_duration(self.seconds * (1 - self.share) / self.share)} left")
        return "  ".join(parts)

    def bar(self) -> str:
        full = round(self.share * BAR)
        return f"[{'#' * full}{'.' * (BAR - full)}]{self.line()}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:.1f} h"


@contextmanager
def watched(look: Callable[[float], Moment], say: Callable[[str], None] | None) -> Iterator[None]:
    """Show how far the run is: by `say`, every few seconds; without it as a bar in a terminal, or as lines.

    `look` is asked with the seconds that have passed.
    """
    bar = say is None and sys.stderr.isatty()
    tell = say or (_draw if bar else _write_line)
    every = BAR_EVERY_S if bar else EVERY_S
    over = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not over.wait(every):
            moment = look(time.monotonic() - began)
            tell(moment.bar() if bar else moment.line())

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if bar:
            _draw("")


def _draw(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()


def _write_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
