"""Time for threads that wait: it moves only when a test moves it, and says when everybody sleeps again."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from tests.conftest import NOON

#: Real seconds after which a test that waits for its threads gives up.
PATIENCE = 30


class VirtualTime:
    """A clock in milliseconds, and conditions whose timeouts follow it."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now
        self._asleep: dict[tuple[_VirtualCondition, int], float] = {}  #: by condition and thread
        self._changed = threading.Condition()

    def __call__(self) -> int:
        return self.now

    def condition(self, lock: Any = None) -> threading.Condition:
        return _VirtualCondition(self, lock)

    def settle(self, count: int) -> None:
        """Wait until so many threads sleep."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._asleep) >= count, PATIENCE), (count, len(self._asleep))

    def settle_or_end(self, future: Future[Any], count: int = 1) -> bool:
        """Wait until so many threads sleep, or until this one has ended: whether it has."""
        future.add_done_callback(lambda _: self._say_so())
        with self._changed:
            rests = self._changed.wait_for(lambda: future.done() or len(self._asleep) >= count, PATIENCE)
        assert rests, (count, len(self._asleep))
        return future.done()

    def _say_so(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def asleep(self) -> int:
        with self._changed:
            return len(self._asleep)

    def forward(self, millis: int) -> None:
        """Let time pass, and wake whoever waited for that."""
        with self._changed:
            self.now += millis
            due = {condition for (condition, _), until in self._asleep.items() if until <= self.now}
        for condition in due:
            with condition:
                condition.notify_all()

    def fell_asleep(self, condition: _VirtualCondition, timeout: float | None) -> None:
        with self._changed:
            until = float("inf") if timeout is None else self.now + timeout * 1000
            self._asleep[condition, threading.get_ident()] = until
            self._changed.notify_all()

    def woke(self, condition: _VirtualCondition) -> None:
        with self._changed:
            for sleeper in [sleeper for sleeper in self._asleep if sleeper[0] is condition]:
                del self._asleep[sleeper]
            self._changed.notify_all()


class _VirtualCondition(threading.Condition):
    def __init__(self, time: VirtualTime, lock: Any = None) -> None:
        super().__init__(lock)
        self._time = time

    def __hash__(self) -> int:
        return id(self)

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None and timeout <= 0:
            return False
        self._time.fell_asleep(self, timeout)
        return super().wait(PATIENCE)

    def notify(self, n: int = 1) -> None:
        self._time.woke(self)
        super().notify(n)
