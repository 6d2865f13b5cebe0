"""The queues that the state machine drives: one of each kind, small enough that every limit is met."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable

from millrace.engine.queue import Queue, Runtime
from millrace.model.keys import shard_of
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, QueueSpec, Retention, RetryPolicy
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import NOON, Clock
from tests.proofs.state_machine.reference import Reference

MakeStore = Callable[[Clock], Store]
_tenants = itertools.count(1)
PROCESSES = 2
LEASE_MS = 30_000
WINDOW_MS = 600_000
AGE_MS = 3_600_000
DEPTH = 8


def _spec(name: str, **settings: object) -> QueueSpec:
    settings = {
        "retention": Retention(max_age_seconds=AGE_MS // 1000, max_depth=DEPTH),
        "delivery": RetryPolicy(max_attempts=3, initial_backoff_ms=1_000, max_backoff_ms=1_500),
        "idempotency": Idempotency(window_seconds=WINDOW_MS // 1000),
        "lease_seconds": LEASE_MS / 1000,
        **settings,
    }
    return QueueSpec(name, **settings)  # type: ignore[arg-type]


TIMETABLE = RetryPolicy(max_attempts=2, initial_backoff_ms=1_000, max_backoff_ms=1_500, jitter=Jitter.NONE)
UNCACHED = Idempotency(window_seconds=WINDOW_MS // 1000, cache_result=False)
SHAPES = (
    _spec("Plain"),
    _spec("Fifo", ordering=Ordering.FIFO, delivery=TIMETABLE),
    _spec("PerKey", ordering=Ordering.PER_KEY),
    _spec("Fair", fair=True),
    _spec("Sharded", shards=3, idempotency=UNCACHED, delivery=TIMETABLE),
    _spec("PerKeySharded", ordering=Ordering.PER_KEY, shards=2, delivery=TIMETABLE),
    _spec("FairSharded", fair=True, shards=2),
    _spec("Places", ordering=Ordering.PER_KEY, concurrency_per_key=2, shards=2, delivery=TIMETABLE),
)


class World:
    """One queue over one store, seen by two processes that share nothing else, and its reference."""

    def __init__(self, make_store: MakeStore, spec: QueueSpec, seed: int) -> None:
        self.clock = Clock(NOON)
        self.store = make_store(self.clock)
        self.spec = spec
        self.tenant = f"m{os.getpid()}-{next(_tenants)}"
        self.random = random.Random(seed)
        self.fixed_chance: float | None = None  #: set: every chance comes out so
        self.blobs = MemoryBlobs()
        self.queues = [self._process() for _ in range(PROCESSES)]
        self.full_until = [0] * PROCESSES  #: a process remembers for 100 ms that the queue was full
        self.numbers = list(range(PROCESSES))  #: of the processes that there ever were
        self.reference = Reference(spec, lambda key, message_id: shard_of(spec, key, message_id))

    def _process(self) -> Queue:
        runtime = Runtime(self.store, self.blobs, clock=self.clock, entropy=self.random.randbytes, chance=self._chance)
        return runtime.queue(self.tenant, self.spec)

    def _chance(self) -> float:
        return self.random.random() if self.fixed_chance is None else self.fixed_chance

    def rehearsal(self) -> Queue | None:
        """The queue over a copy of the store, for a worker of a process of its own; None where it cannot be copied."""
        if not isinstance(self.store, MemoryStore):
            return None
        copy = MemoryStore(self.clock)
        for name, held in vars(self.store).items():
            if isinstance(held, dict):
                setattr(copy, name, {key: dict(one) if isinstance(one, dict) else one for key, one in held.items()})
        return Runtime(copy, self.blobs, clock=self.clock, chance=lambda: 0.5).queue(self.tenant, self.spec)

    def kill(self, process: int) -> None:
        """The process is gone with its credits and notes; another one takes its place."""
        self.queues[process] = self._process()
        self.full_until[process] = 0
        self.numbers[process] = max(self.numbers) + 1

    @property
    def now(self) -> int:
        return self.clock.now
