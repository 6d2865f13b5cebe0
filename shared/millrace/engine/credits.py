"""Admission by credits: an exact `max_depth` without a counter write for every message.

A process takes a block of credits from the queue's counter and spends it on its own. Blocks start at one, double
under sustained traffic, and shrink to one near the limit, so that the limit is exact and the cost far below one
write a message. In a busy queue they grow with what all processes take together, as the counter shows it: the item
is written so many times a second at any load. A credit ends with the minute after its grant: what a dead process
held is found by the sweep.
"""

from __future__ import annotations

import threading
from dataclasses import field, replace

from millrace.model.clock import MINUTE, Chance, Clock
from millrace.model.queue_spec import QueueSpec
from millrace.model.queue_state import GRANT_MINUTES, CounterDelta, CreditRequest, QueueState
from millrace.model.values import dataclass
from millrace.stores.interface import Store

MAX_BLOCK = 64
#: Writes a second of a queue's counter that all who take credits are to make together, and as many all who give back.
COUNTER_WRITES = 40
#: A rate is told by no shorter time, and believed for so long.
LEAST_MEASURED_MS, RATE_HOLDS_MS = 20, 30_000
#: A block used up within this asks for a larger one.
SUSTAINED_MS = 1_000
#: After a refusal, further ones are given without asking the table: a flood must not cost a write each.
FULL_MEMORY_MS = 100


@dataclass(slots=True)
class CreditCache:
    """What this process holds for one queue."""

    #: Of this queue alone: nobody waits for the table on behalf of another queue.
    lock: threading.Lock = field(default_factory=lambda: threading.Lock())
    held: int = 0
    usable_until: int = 0  #: by this clock; nothing is spent or given back after it
    block: int = 1
    taken_at: int = -SUSTAINED_MS
    granted: int = 0  #: credits that all processes had taken by then
    rate: float = 0.0  #: credits a second that all processes took between this one's last two blocks
    full_until: int = 0
    arrived: int = 0  #: messages accepted since the counter was last written
    state: QueueState | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """How many of the wanted messages may enter."""

    count: int
    usable_until: int = 0  #: when the credits that it spends run out: what comes back later is lost
    dictionary: str = ""  #: name of the queue's dictionary, as its state said when credits were last taken


class Credits:
    """This process's credits for every queue. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._caches: dict[tuple[str, str], CreditCache] = {}
        self._lock = threading.Lock()

    def admit(self, tenant: str, spec: QueueSpec, wanted: int) -> Admission:
        """Spend up to `wanted` credits; fewer when the queue has no more room.

        Whatever is put into the queue on them is in reach of the sweep: the queue is listed before they are spent.
        """
        cache = self._cache(tenant, spec.name)
        with cache.lock:
            now = self._clock()
            if now >= cache.usable_until:
                cache.held = 0
            if cache.held < wanted and now >= cache.full_until:
                self._refill(tenant, spec, cache, wanted, now)
            count = min(wanted, cache.held)
            if count and cache.state is not None and not cache.state.listed:
                self._store.register(tenant, spec.name)
                cache.state = replace(cache.state, listed=True)
            cache.held -= count
            cache.arrived += count
            return Admission(count, cache.usable_until, cache.state.dictionary if cache.state else "")

    def refund(self, tenant: str, spec: QueueSpec, admission: Admission, count: int) -> None:
        """Take back credits spent on entries that were removed again: each ends when it would have ended."""
        cache = self._cache(tenant, spec.name)
        with cache.lock:
            cache.arrived -= count
            if self._clock() < admission.usable_until:
                cache.usable_until = min(cache.usable_until, admission.usable_until)
                cache.held += count

    def give_back(self) -> None:
        """Hand back what is unspent: before a process ends, or goes idle for long."""
        with self._lock:
            caches = list(self._caches.items())
        for (tenant, queue), cache in caches:
            with cache.lock:
                now = self._clock()
                unspent = cache.held if now < cache.usable_until else 0
                if (unspent or cache.arrived) and cache.state is not None:
                    self._store.settle(
                        tenant,
                        queue,
                        CounterDelta(now, epoch=cache.state.epoch, unspent=unspent, arrived=cache.arrived),
                    )
                cache.held, cache.arrived = 0, 0

    def _cache(self, tenant: str, queue: str) -> CreditCache:
        with self._lock:
            return self._caches.setdefault((tenant, queue), CreditCache())

    def _refill(self, tenant: str, spec: QueueSpec, cache: CreditCache, wanted: int, now: int) -> None:
        """Take what is missing, or as much of it as there is room for."""
        max_depth = spec.retention.max_depth
        needed = wanted - cache.held
        count = max(needed, self._block(cache, max_depth, now))
        while True:
            if count == 0:
                cache.full_until = now + FULL_MEMORY_MS
                return
            stale = cache.state.stale_minutes(now) if cache.state else ()
            answer = self._store.take_credits(
                tenant, spec.name, CreditRequest(count, max_depth, now, cache.arrived, stale)
            )
            if isinstance(answer, QueueState):
                break
            cache.state = answer.current
            count = max(0, min(needed, count - 1, max_depth - answer.current.depth))
        granted = answer.depth + answer.returned
        if cache.granted:
            cache.rate = max(0, granted - cache.granted) * 1000 / max(now - cache.taken_at, LEAST_MEASURED_MS)
        cache.granted = granted
        cache.state = answer
        cache.arrived = 0
        fresh_until = (now // MINUTE + GRANT_MINUTES) * MINUTE
        cache.usable_until = min(cache.usable_until, fresh_until) if cache.held else fresh_until
        cache.held += count
        cache.taken_at = now

    def _block(self, cache: CreditCache, max_depth: int, now: int) -> int:
        """How many to take at once: more and more under sustained traffic, one near the limit."""
        elapsed = now - cache.taken_at
        cache.block = min(cache.block * 2, MAX_BLOCK) if elapsed < SUSTAINED_MS else 1
        room = max_depth - cache.state.depth if cache.state else 0
        # Half of it or more, by chance: those who began together would otherwise come back together.
        share = int(cache.rate / COUNTER_WRITES * (0.5 + self._chance())) if elapsed < RATE_HOLDS_MS else 0
        return max(min(cache.block, room // 16), min(share, room // 256))
