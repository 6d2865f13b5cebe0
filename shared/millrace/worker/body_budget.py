"""How much memory bodies may take at the same time in one worker process, over all of its queues.

One sender's large bodies must not end a process that holds others' messages. A body is weighed by its size before it
is read (`memory_cost`, the most that it can take once it is parsed). Small ones always start. Large ones start in the
order in which they asked, as many as fit; one starts alone even where it does not. What waits holds back large ones
only. Memory is kept for the first that waits as soon as it fits, so that no queue's backlog starves another's; a queue
asks for one at a time, so that it keeps no more than that from the others while its threads are busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from millrace.model.strict_json import memory_cost

if TYPE_CHECKING:
    from millrace.worker.run import Run

MB = 1024 * 1024
#: What a worker's process takes without any body: interpreter, clients, commands.
OWN_MEMORY = 160 * MB
LEAST = 64 * MB
#: Of a process that does not say how much it has: what the template gives a worker.
DEFAULT_MEMORY = 512
#: Bodies that can take no more than this (about 50 KB, as they came) are not counted.
SMALL = 2 * MB


class BodyBudget:
    """Shared by the workers of a process; safe between threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._taken: dict[Run, int] = {}
        self._waiting: dict[Run, None] = {}  #: in the order in which they asked
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def of_memory(cls, megabytes: int) -> BodyBudget:
        """For a process with so much memory in all."""
        return cls(max(LEAST, megabytes * MB - OWN_MEMORY))

    @property
    def taken(self) -> int:
        with self._lock:
            return sum(self._taken.values())

    def is_small(self, run: Run) -> bool:
        return memory_cost(run.claim.message.body.size) <= SMALL

    def take(self, run: Run) -> bool:
        """Let a run start; False while it must wait for others. What was asked for must be given back."""
        if self.is_small(run):
            return True
        with self._lock:
            if run not in self._taken:
                self._waiting.setdefault(run)
                self._grant()
            return run in self._taken

    def give(self, run: Run) -> None:
        """A run is over, or will not start here: others may."""
        if self.is_small(run):
            return
        with self._lock:
            self._taken.pop(run, None)
            self._waiting.pop(run, None)
            self._grant()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _grant(self) -> None:
        """Keep memory for those that wait, in their order, while it lasts."""
        taken = sum(self._taken.values())
        for run in list(self._waiting):
            cost = memory_cost(run.claim.message.body.size)
            if taken and taken + cost > self.limit:
                return
            del self._waiting[run]
            self._taken[run] = cost
            taken += cost

    @contextmanager
    def on_room(self, listener: Callable[[], None]) -> Iterator[None]:
        """Within the block, `listener` is called whenever something was given back."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)
