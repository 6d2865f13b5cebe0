"""An event loop whose time is the test's: where every task waits, time moves on to the first that is due."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.pull.virtual_time import VirtualTime

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self._time.forward(math.ceil(timeout * 1000))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Sleeps and time-outs take none of our time."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__(_Selector(time))
        self._virtual, self._began = time, time()

    def time(self) -> float:
        return (self._virtual() - self._began) / 1000  # small: a loop adds a nanosecond to what is due


def play(time: VirtualTime, story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(time)) as runner:
        return runner.run(story)
