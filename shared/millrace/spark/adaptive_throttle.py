"""How fast one task writes: a share of the run's write units, less after throttling, more again with time.

Additive-increase rates of a whole table need a coordinator; here each task halts itself. A throttled answer lowers
the task's rate by 30 %, at most twice a second; each quiet second raises it by 5 %, up to its share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LOWER_BY = 0.7
LOWER_EVERY_S = 0.5
RAISE_PER_S = 0.05
#: No task is slowed below this: it would never learn that the table has room again.
LEAST_UNITS_PER_S = 5.0
#: Nor raised above this where it has no share: from too far up it would take long to come down again.
MOST_UNITS_PER_S = 100_000.0
#: A longer rest than this raises no further.
LONGEST_REST_S = 600.0
#: Unused room of this many seconds may be caught up with, so that a pause between batches costs nothing.
BURST_S = 0.25


@dataclass(slots=True)
class Spending:
    """What a task has written so far, as DynamoDB charges it."""

    units: float = 0.0
    throttled: int = 0  #: statements that the table throttled
    throttled_s: int = 0  #: seconds in which it throttled any
    waited_s: float = 0.0  #: for the rate's sake, over all threads


class AdaptiveThrottle:
    """Write units per second of one task. Safe to share between threads."""

    def __init__(
        self,
        units_per_s: float | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = units_per_s  #: None: as fast as the table takes it
        self._most = units_per_s or MOST_UNITS_PER_S
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._began = self._raised_at = self._free_at = monotonic()
        self._lowered_at = float("-inf")
        self._throttled_in: int | None = None  #: the last second in which the table throttled
        self.spending = Spending()

    @property
    def rate(self) -> float | None:
        """Units a second at the moment; None while nothing holds it back."""
        return self._rate

    def take(self, units: float) -> None:
        """Wait until so many units may be written."""
        with self._lock:
            now = self._monotonic()
            self.spending.units += units
            if self._rate is None:
                return
            self._raise(now)
            start = max(self._free_at, now - BURST_S)
            self._free_at = start + units / self._rate
            wait = max(0.0, start - now)
            self.spending.waited_s += wait
        if wait:
            self._sleep(wait)

    def correct(self, units: float) -> None:
        """A request cost so much more (or less) than was taken for it."""
        with self._lock:
            self.spending.units += units
            if self._rate is not None:
                self._free_at += units / self._rate

    def throttled(self, statements: int) -> None:
        """The table throttled statements."""
        with self._lock:
            now = self._monotonic()
            self.spending.throttled += statements
            if int(now) != self._throttled_in:
                self._throttled_in = int(now)
                self.spending.throttled_s += 1
            if now - self._lowered_at < LOWER_EVERY_S:
                return
            if self._rate is None:
                self._rate = self.spending.units / max(now - self._began, LOWER_EVERY_S)
                self._raised_at = self._free_at = now
            self._raise(now)
            self._rate = max(min(LEAST_UNITS_PER_S, self._most), self._rate * LOWER_BY)
            self._lowered_at = now

    def _raise(self, now: float) -> None:
        assert self._rate is not None  # noqa: S101
        grown = self._rate * (1 + RAISE_PER_S) ** min(now - self._raised_at, LONGEST_REST_S)
        self._rate = min(grown, self._most)
        self._raised_at = now
