"""One schedule of an exploration: its store and clock, its processes, and where faults come to them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from millrace.engine.queue import Runtime
from millrace.model.errors import MillraceError
from millrace.stores.memory.app_tables import AppTables
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.testing.schedules import Schedule, ScheduledFault, without_answer
from millrace.worker.worker import Worker

#: Where the clock of every schedule begins: 2026-01-01T00:00:00Z.
BEGINNING_MS = 1_767_225_600_000
#: Time that goes by where nothing is due: leases end, retries come.
LATER_MS = 60_000
MOST_ROUNDS = 50
#: Store calls in the words of the glossary; what only reads is told where a fault comes to it.
WORDS = {
    "claim_entries": "the claim",
    "end_entries": "the ack",
    "end_together": "the ack of a batch",
    "put_results": "keeping the result",
    "transact": "the transaction",
    "put_workflow_state": "writing the journal",
    "move_entry": "putting off the retry",
    "bury_entry": "the dead letter",
    "hold_entries": "holding the claim",
    "settle": "counting",
    "put_entries": "enqueueing the entry",
    "put_messages": "committing the message",
}


class ProcessDied(BaseException):
    """A process ends here. No handler may catch it: a killed process runs no `except`."""


class Subject(Protocol):
    """What is explored."""

    def enqueue(self, runtime: Runtime) -> None:
        """Send what the schedule begins with."""

    def workers(self, runtime: Runtime) -> Sequence[Worker]:
        """A worker for each queue, of one process."""

    @property
    def lease_ms(self) -> int:
        """After this much time every claim is over."""


@dataclass(slots=True)
class _Process:
    name: str
    dead: bool = False


class _ProcessStore:
    """The store as one process sees it: a fault may come before each call."""

    def __init__(self, world: ExploredWorld, process: _Process) -> None:
        self._world = world
        self._process = process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._world.store, name)

        def call(*given: Any, **named: Any) -> Any:
            lost = self._world.point(name, self._process)
            answer = method(*given, **named)
            return without_answer(name, answer) if lost else answer

        return call


@dataclass(slots=True)
class ExploredWorld:
    """One schedule: its store, clock, processes and trace."""

    subject: Subject
    schedule: Schedule
    now: int = BEGINNING_MS
    trace: list[str] = field(default_factory=list)
    store: MemoryStore = field(init=False)
    points: int = 0
    _blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    _keys: MemoryKeys = field(default_factory=MemoryKeys)
    _processes: list[_Process] = field(default_factory=list)  #: those on the way, the innermost last
    _started: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 (the same in every schedule)

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.now)

    @property
    def tables(self) -> AppTables:
        return self.store.app_tables

    def play(self) -> bool:
        """The message, then one process after another until nothing is left; whether that comes to be."""
        self.subject.enqueue(self._runtime(self.store))
        for _ in range(MOST_ROUNDS):
            self._process()
            if not self.store.entries:
                return True
            self.now += LATER_MS
        return False

    @property
    def dead(self) -> list[str]:
        """Errors of the messages that ended as dead letters."""
        return [letter.error for letters in self.store.dead_letters.values() for letter in letters.values()]

    def point(self, what: str, process: _Process | None = None) -> bool:
        """A process is about to call the store, or to have an effect; True where the answer is to be lost."""
        if not self._processes:
            return False  # the test itself prepares, or looks
        process = process or self._processes[-1]
        if process.dead:
            raise ProcessDied
        self.points += 1
        fault = self.schedule.choose(list(ScheduledFault))
        if fault or what in WORDS or not hasattr(self.store, what):
            self.trace.append(f"{process.name}  {f'{fault} ' if fault else ''}{WORDS.get(what, what)}")
        if fault is ScheduledFault.DEATH:
            process.dead = True
            raise ProcessDied
        if fault is ScheduledFault.STALL:
            self._let_another_take_over()
            self.trace.append(f"{process.name}  goes on with {WORDS.get(what, what)}")
        return fault is ScheduledFault.LOSS

    def _let_another_take_over(self) -> None:
        """In a thread of its own: the one that stands still may be in the middle of an event loop."""
        self.now += self.subject.lease_ms + 1
        with ThreadPoolExecutor(1, "millrace-takeover") as other:
            other.submit(self._process).result()

    def _process(self) -> None:
        """One worker process, until nothing is due or it dies."""
        self._started += 1
        process = _Process(f"worker {self._started}")
        self._processes.append(process)
        try:
            runtime = self._runtime(_ProcessStore(self, process))
            for _ in range(MOST_ROUNDS):
                if not sum(worker.step() for worker in self.subject.workers(runtime)):
                    return
        except ProcessDied:
            return
        except MillraceError as error:
            self.trace.append(f"{process.name}  gives up: {error}")
        finally:
            process.dead = True  # what its threads still do happens in no process any more
            self._processes.remove(process)

    def _runtime(self, store: Any) -> Runtime:
        return Runtime(
            store,
            self._blobs,
            clock=lambda: self.now,
            entropy=self._random.randbytes,
            chance=lambda: 0.5,
            keys=self._keys,
        )
