"""Circuit breakers: a target that fails everything is probed, instead of burning every message's attempts.

closed    everything goes through. FAILURES failures in a row, with no success in between, open it.
open      nothing is claimed until the next probe; runs already under way that fail are put back uncharged.
half-open one message, over all workers of the queue, goes through as a probe: success closes the breaker, failure
          waits twice as long, up to MAX_MS.

What is shared is one attribute of the queue's state, which every claim reads anyway: a closed breaker costs
nothing, an open one a write a probe. Where a queue has several targets, one open breaker holds the whole queue: a
message is only done when all of its targets are.

In a first-in-first-out queue a failed run is charged even then. Its head is the only message that may be tried, so a
message that can never succeed looks like an outage; uncharged, it would block its queue for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock

from millrace.engine.queue import Queue
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import BreakerState
from millrace.worker.context import log

FAILURES = 10
FIRST_MS = 5_000
MAX_MS = 60_000
#: Tries to write a change that others write at the same time.
TRIES = 4
#: When another worker probes: look at what came of it after so long.
LOOK_MS = 1_000

#: No breaker is open: a fetch claims as much as it has room for.
NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many messages may be claimed now, and when to ask again where none may."""

    limit: int = NO_LIMIT
    next_at: int | None = None


def probe_wait(level: int) -> int:
    """How long until the next probe after `level` failed ones."""
    return min(FIRST_MS << min(level, 10), MAX_MS)


class Breakers:
    """The breakers of one queue's targets, and how much they let through. Safe to share between threads."""

    def __init__(self, queue: Queue, targets: Iterable[str], on_change: Callable[[str], None] = lambda _: None) -> None:
        self._queue = queue
        self._targets = frozenset(targets)
        self._on_change = on_change
        self._always_charged = queue.spec.ordering is Ordering.FIFO
        self._lock = Lock()
        self._failures: Counter[str] = Counter()
        self._probing: set[str] = set()

    def allowance(self) -> Allowance:
        """Everything while all are closed; one message when a probe is due; else nothing until then."""
        queue = self._queue
        state = queue.state()
        breakers = {name: breaker for name, breaker in state.breakers.items() if name in self._targets}
        if not breakers:
            return Allowance()
        now = queue.now()
        latest = max(breaker.until for breaker in breakers.values())
        if now < latest:
            return Allowance(0, latest)
        for name, breaker in breakers.items():
            mine = queue.store.set_breaker(state, name, BreakerState(now + probe_wait(breaker.level), breaker.level))
            queue.state(fresh=True)
            if not mine:
                return Allowance(0, now + LOOK_MS)
        with self._lock:
            self._probing |= breakers.keys()
        return Allowance(1)

    def succeeded(self, target: str) -> None:
        """The target works: its breaker closes."""
        with self._lock:
            self._failures[target] = 0
            self._probing.discard(target)
        if target in self._queue.state().breakers:
            self._write(target, lambda _: None)
            self._changed(target, "closed")

    def failed(self, target: str) -> int | None:
        """Count a failure; while the breaker is open, until when the message is to be put back uncharged."""
        with self._lock:
            self._failures[target] += 1
            enough = self._failures[target] >= FAILURES
            probe = target in self._probing
            self._probing.discard(target)
        now = self._queue.now()
        breaker = self._queue.state().breakers.get(target)
        if breaker is not None and probe:
            level = breaker.level + 1
            breaker = self._write(target, lambda _: BreakerState(now + probe_wait(level), level))
        elif breaker is None and enough:
            breaker = self._write(target, lambda seen: seen or BreakerState(now + FIRST_MS))
            self._changed(target, "opened")
        if breaker is None or self._always_charged:
            return None
        return max(now, breaker.until)

    def _write(self, target: str, change: Callable[[BreakerState | None], BreakerState | None]) -> BreakerState | None:
        """Change what is shared; as it stands afterwards."""
        for _ in range(TRIES):
            seen = self._queue.state(fresh=True)
            wanted = change(seen.breakers.get(target))
            if wanted == seen.breakers.get(target) or self._queue.store.set_breaker(seen, target, wanted):
                break
        return self._queue.state(fresh=True).breakers.get(target)

    def _changed(self, target: str, what: str) -> None:
        fields = {"action": f"breaker_{what}", "queue": self._queue.spec.name, "target": target}
        log.warning("A circuit breaker %s.", what, extra=fields)
        self._on_change(what)
