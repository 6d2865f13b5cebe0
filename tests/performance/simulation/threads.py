"""Threads in virtual time: `threading`'s Thread, Lock, Condition and Event as tasks, for the real worker's own code.

`virtual_threads` swaps them into the library's modules for as long as it lasts. A lock that is held over a request
blocks whoever else wants it, as it does in a process: that is one of the things to be measured.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tests.performance.simulation.virtual_time import Task, VirtualTime


def classes_for(time: VirtualTime) -> dict[str, Any]:
    """The classes, bound to one virtual time."""

    class Lock:
        def __init__(self) -> None:
            self._held = False
            self._waiters: deque[Callable[[], None]] = deque()

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            while self._held:
                if not blocking:
                    return False
                time.wait(self._waiters.append)
            self._held = True
            return True

        def release(self) -> None:
            self._held = False
            if self._waiters:
                self._waiters.popleft()()

        def locked(self) -> bool:
            return self._held

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    class Condition:
        def __init__(self, lock: Any = None) -> None:
            self._lock = lock if lock is not None else Lock()
            self._waiters: deque[Callable[[], None]] = deque()

        def acquire(self, *arguments: Any) -> bool:
            return bool(self._lock.acquire(*arguments))

        def release(self) -> None:
            self._lock.release()

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

        def wait(self, timeout: float | None = None) -> bool:
            notified = False

            def register(wake: Callable[[], None]) -> None:
                def notify() -> None:
                    nonlocal notified
                    notified = True
                    wake()

                self._waiters.append(notify)
                if timeout is not None:
                    time.at(time.now + max(0.0, timeout) * 1000, lambda: self._give_up(notify, wake))

            self._lock.release()
            time.wait(register)
            self._lock.acquire()
            return notified

        def _give_up(self, notify: Callable[[], None], wake: Callable[[], None]) -> None:
            if notify in self._waiters:
                self._waiters.remove(notify)
                wake()

        def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
            end = None if timeout is None else time.monotonic() + timeout
            while not (found := predicate()):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    break
                self.wait(left)
            return found

        def notify(self, n: int = 1) -> None:
            for _ in range(min(n, len(self._waiters))):
                self._waiters.popleft()()

        def notify_all(self) -> None:
            self.notify(len(self._waiters))

    class Event:
        def __init__(self) -> None:
            self._set = False
            self._changed = Condition()

        def is_set(self) -> bool:
            return self._set

        def set(self) -> None:
            self._set = True
            self._changed.notify_all()

        def clear(self) -> None:
            self._set = False

        def wait(self, timeout: float | None = None) -> bool:
            if not self._set:
                with self._changed:
                    self._changed.wait_for(self.is_set, timeout)
            return self._set

    class Thread:
        def __init__(
            self,
            group: None = None,
            target: Callable[..., Any] | None = None,
            name: str = "thread",
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
            *,
            daemon: bool | None = None,
        ) -> None:
            self.name = name
            self.daemon = daemon
            self._work = lambda: target(*args, **(kwargs or {})) if target else None
            self._task: Task | None = None

        def start(self) -> None:
            self._task = time.spawn(self.name, self._work)

        def is_alive(self) -> bool:
            return self._task is not None and not self._task.over

        def join(self, timeout: float | None = None) -> None:
            task = self._task
            if task is None or task.over:
                return

            def register(wake: Callable[[], None]) -> None:
                task.on_end.append(wake)
                if timeout is not None:
                    time.at(time.now + timeout * 1000, wake)

            time.wait(register)

    class ThreadPoolExecutor:
        """As much of the pool as the library uses: `map`, which raises the first error."""

        def __init__(self, max_workers: int, thread_name_prefix: str = "pool") -> None:
            self._count = max_workers
            self._name = thread_name_prefix

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def map(self, function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
            given = list(enumerate(values))
            found: dict[int, Any] = {}
            errors: list[Exception] = []

            def work() -> None:
                while given:
                    number, value = given.pop(0)
                    try:
                        found[number] = function(value)
                    except Exception as error:  # noqa: BLE001 (raised again below, as a pool's `map` does)
                        errors.append(error)

            threads = [Thread(target=work, name=self._name) for _ in range(min(self._count, len(given)))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if errors:
                raise errors[0]
            return [found[number] for number in sorted(found)]

    return {
        "Lock": Lock,
        "RLock": Lock,
        "Condition": Condition,
        "Event": Event,
        "Thread": Thread,
        "ThreadPoolExecutor": ThreadPoolExecutor,
    }


@contextmanager
def virtual_threads(time: VirtualTime) -> Iterator[None]:
    """Swap the classes into every module of the library that uses them. Import what is to run before."""
    classes = classes_for(time)
    real = {name: getattr(threading, name, None) or getattr(futures, name) for name in classes}
    stand_in = SimpleNamespace(**{**vars(threading), **classes})
    swapped: list[tuple[Any, str, Any]] = []
    for module in [module for name, module in sys.modules.items() if name.startswith("millrace")]:
        for name, value in list(vars(module).items()):
            if value is threading:
                swapped.append((module, name, value))
                setattr(module, name, stand_in)
            elif name in real and value is real[name]:
                swapped.append((module, name, value))
                setattr(module, name, classes[name])
    try:
        yield
    finally:
        for module, name, value in swapped:
            setattr(module, name, value)
