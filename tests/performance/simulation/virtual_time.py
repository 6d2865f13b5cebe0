"""Virtual time: tasks are greenlets, waiting costs nothing, and the clock jumps to whoever is due next.

The order of two tasks that are due at the same moment is the order in which they were scheduled, so a run is decided
by its seed alone: the same figures on every machine.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import GreenletExit, greenlet

NOON = 1_800_000_000_000.0


@dataclass(eq=False)
class Process:
    """Tasks that live and die together: a Lambda instance, a container."""

    name: str
    tasks: list[Task] = field(default_factory=list)
    dead: bool = False


@dataclass(eq=False)
class Task:
    """Something that runs in virtual time."""

    name: str
    glet: greenlet
    process: Process | None = None
    over: bool = False
    killed: bool = False
    error: BaseException | None = None
    on_end: list[Callable[[], None]] = field(default_factory=list)


class Stuck(AssertionError):
    """Time ran out before a task had ended."""


class VirtualTime:
    """A clock in milliseconds, the tasks that wait for it, and the run's randomness."""

    def __init__(self, seed: int = 1, now: float = NOON) -> None:
        self.now = now
        self.random = random.Random(seed)
        self._hub = greenlet.getcurrent()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.current: Task | None = None

    def clock(self) -> int:
        """The time as the library's clock gives it: whole milliseconds."""
        return int(self.now)

    def monotonic(self) -> float:
        """Seconds, as `time.monotonic` gives them."""
        return self.now / 1000

    # -- scheduling ---------------------------------------------------------------------------------------------
    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call something at a time, from the hub. It must not wait."""
        self._scheduled += 1
        heapq.heappush(self._due, (max(when, self.now), self._scheduled, call))

    def spawn(
        self, name: str, work: Callable[[], Any], *, after_ms: float = 0.0, process: Process | None = None
    ) -> Task:
        """Start a task, in the process of whoever starts it unless another is named."""
        process = process or (self.current.process if self.current else None)
        task = Task(name, greenlet(self._perform, self._hub), process)
        if process is not None:
            process.tasks = [one for one in process.tasks if not one.over]
            process.tasks.append(task)
        self.at(self.now + after_ms, lambda: self._switch_to(task, task, work))
        return task

    def _perform(self, task: Task, work: Callable[[], Any]) -> None:
        try:
            work()
        except GreenletExit:
            pass
        except BaseException as error:  # noqa: BLE001 (raised again by `run`, in the hub)
            task.error = error
        task.over = True
        for call in task.on_end:
            call()

    def _switch_to(self, task: Task, *first: Any) -> None:
        if task.over or task.glet.dead:
            return
        before, self.current = self.current, task
        task.glet.switch(*first)
        self.current = before
        if task.error is not None:
            error, task.error = task.error, None
            raise error

    # -- waiting, from inside a task ----------------------------------------------------------------------------
    def sleep(self, seconds: float) -> None:
        """As `time.sleep`."""
        self.sleep_ms(seconds * 1000)

    def sleep_ms(self, millis: float) -> None:
        """Let this much time pass for the task that calls it."""
        task = self._task()
        self.at(self.now + max(0.0, millis), lambda: self._switch_to(task))
        self._hub.switch()

    def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the callback that `register` is handed is called; further calls of it do nothing."""
        task = self._task()
        woken = False

        def wake() -> None:
            nonlocal woken
            if not woken:
                woken = True
                self.at(self.now, lambda: self._switch_to(task))

        register(wake)
        self._hub.switch()

    def _task(self) -> Task:
        if self.current is None or greenlet.getcurrent() is self._hub:
            raise RuntimeError("only a task can wait in virtual time")
        return self.current

    # -- the hub ------------------------------------------------------------------------------------------------
    def kill(self, task: Task) -> None:
        """End a task where it stands, as SIGKILL would: none of its code runs again, not even `finally`.

        Its greenlet is dropped at its next switch; since it is never switched to again, nothing of it happens.
        """
        task.over = task.killed = True
        for call in task.on_end:
            call()

    def kill_process(self, process: Process) -> None:
        """End every task of a process where it stands."""
        process.dead = True
        for task in process.tasks:
            if not task.over:
                self.kill(task)

    def run(self, until_ms: float | None = None) -> None:
        """Let time pass for `until_ms`, or until nothing is scheduled any more."""
        end = None if until_ms is None else self.now + until_ms
        while self._due and (end is None or self._due[0][0] <= end):
            when, _, call = heapq.heappop(self._due)
            self.now = max(self.now, when)
            call()
        if end is not None:
            self.now = max(self.now, end)

    def run_until(self, done: Callable[[], bool], at_most_ms: float) -> None:
        """Let time pass until something holds. Raises Stuck where it does not within `at_most_ms`."""
        end = self.now + at_most_ms
        while not done():
            if not self._due or self._due[0][0] > end:
                raise Stuck(f"not within {at_most_ms / 1000:,.1f} s of virtual time")
            when, _, call = heapq.heappop(self._due)
            self.now = max(self.now, when)
            call()
