"""How long a worker may still go on: a Lambda's remaining time, a process's grace, or without end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock

#: Milliseconds left; None for no end.
Remaining = Callable[[], int | None]
#: Waits on a condition that the caller holds, for at most so many seconds.
Wait = Callable[[Condition, float], object]


def real_wait(condition: Condition, seconds: float) -> object:
    return condition.wait(seconds)


class TimeLeft:
    """The end of a worker's time. Safe to share between threads.

    `stop` brings the end forward: SIGTERM, Ctrl-C, a lost slot. What is stopped for one queue goes on for the others:
    see `share`.
    """

    def __init__(
        self,
        remaining: Remaining = lambda: None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        whole: TimeLeft | None = None,
    ) -> None:
        self._remaining = remaining
        self._whole = whole  #: ends this one with itself
        self._monotonic = monotonic
        self._lock = Lock()
        self._end: float | None = None
        self._listeners: list[Callable[[], None]] = []
        self._reason = ""

    @classmethod
    def seconds(cls, seconds: float, *, monotonic: Callable[[], float] = time.monotonic) -> TimeLeft:
        end = monotonic() + seconds
        return cls(lambda: int((end - monotonic()) * 1000), monotonic=monotonic)

    def left_ms(self) -> int | None:
        """None for no end in sight."""
        left = self._remaining()
        with self._lock:
            if self._end is not None:
                grace = int((self._end - self._monotonic()) * 1000)
                left = grace if left is None else min(left, grace)
        return None if left is None else max(0, left)

    def stop(self, grace_s: float, reason: str) -> None:
        """Claim nothing more; what runs has `grace_s` to finish."""
        with self._lock:
            end = self._monotonic() + grace_s
            self._end = end if self._end is None else min(self._end, end)
            self._reason = self._reason or reason
        self._wake()

    def mark(self, reason: str) -> None:
        """The part of `stop` that takes no lock, for a signal handler: nothing more starts from here on."""
        self._reason = self._reason or reason

    @property
    def reason(self) -> str:
        """Why it was stopped; empty while it was not."""
        return self._reason or (self._whole.reason if self._whole else "")

    @property
    def stopped(self) -> bool:
        return bool(self.reason)

    @contextmanager
    def on_stop(self, listener: Callable[[], None]) -> Iterator[None]:
        """Within the block, `stop` calls `listener`; at once where the time is over already."""
        with self._lock:
            self._listeners.append(listener)
            stopped = self.stopped
        if stopped:
            listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @contextmanager
    def share(self) -> Iterator[TimeLeft]:
        """The time of one drain: it ends with this one, or sooner by itself, which ends nothing else."""
        part = TimeLeft(self.left_ms, monotonic=self._monotonic, whole=self)
        with self.on_stop(part._wake):
            yield part

    def _wake(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()
