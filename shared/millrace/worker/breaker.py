"""Circuit breakers: a target that is down is probed, instead of burning every message's attempts.

A breaker speaks of a *target*: it counts connection failures, time-outs, 429 and 5xx of http and lambda targets, a
full queue behind a queue target, and what a command itself calls `Unavailable`. Any other failure is the message's
own: it is retried, charged and buried by the queue's timetable, and opens nothing.

closed    everything goes through. FAILURES outages in a row, with no other answer in between, open it.
open      nothing is claimed for the target until the next probe; what was claimed before is put back without a call.
half-open one message, over all workers of the queue, goes through as a probe: the one that was tried least. Any answer
          closes the breaker; another outage waits twice as long, up to MAX_MS.

A call that fails is charged, a probe's too, so `max_attempts` holds whatever a breaker does. A target that only says
"later" (429, a full queue) charges nothing, to a probe neither: no run of the message failed. What is shared is one
attribute of the queue's state, which every claim reads anyway: a closed breaker costs nothing, an open one a write a
probe. Where a queue has several targets, an open breaker holds back its own target alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Lock

from millrace.engine.queue import Queue
from millrace.model.queue_state import BreakerState, QueueState
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
    probe: bool = False  #: the one message is a probe: take the one that was tried least


def probe_wait(level: int) -> int:
    """How long until the next probe after `level` failed ones."""
    return min(FIRST_MS << min(level, 10), MAX_MS)


class Breakers:
    """The breakers of one queue's targets, and how much they let through. Safe to share between threads."""

    def __init__(self, queue: Queue, targets: Iterable[str], on_change: Callable[[str], None] = lambda _: None) -> None:
        self._queue = queue
        self._targets = frozenset(targets)
        self._on_change = on_change
        self._lock = Lock()
        self._failures: Counter[str] = Counter()
        self._granted: set[str] = set()  #: targets that this process may call once, though they are down
        self._probing: set[str] = set()  #: targets that it is calling so

    def allowance(self) -> Allowance:
        """Everything while a target can be called; one message when a probe is due; else nothing until then."""
        state = self._queue.state()
        breakers = {name: breaker for name, breaker in state.breakers.items() if name in self._targets}
        if not breakers or len(breakers) < len(self._targets):
            return Allowance()
        now = self._queue.now()
        first = min(breakers, key=lambda name: breakers[name].until)
        if now < breakers[first].until:
            return Allowance(0, breakers[first].until)
        if not self._take_probe(state, first):
            return Allowance(0, now + LOOK_MS)
        with self._lock:
            self._granted.add(first)
        return Allowance(1, probe=True)

    def held_back_until(self, target: str) -> int | None:
        """None where the target may be called now; else when it is worth trying again, without a call."""
        state = self._queue.state()
        breaker = state.breakers.get(target)
        if breaker is None:
            return None
        with self._lock:
            granted = target in self._granted
            self._granted.discard(target)
        if granted or (self._queue.now() >= breaker.until and self._take_probe(state, target)):
            with self._lock:
                self._probing.add(target)
            return None
        return max(self._queue.now() + LOOK_MS, breaker.until)

    def answered(self, target: str) -> None:
        """The target answered, whatever it said: its breaker closes."""
        with self._lock:
            self._failures[target] = 0
            self._probing.discard(target)
        if target in self._queue.state().breakers:
            self._write(target, lambda _: None)
            self._changed(target, "closed")

    def failed(self, target: str) -> None:
        """The target could not be reached or said that it is down: enough of these in a row open its breaker."""
        with self._lock:
            self._failures[target] += 1
            enough = self._failures[target] >= FAILURES
            probe = target in self._probing
            self._probing.discard(target)
        now = self._queue.now()
        breaker = self._queue.state().breakers.get(target)
        if breaker is not None and probe:
            level = breaker.level + 1
            self._write(target, lambda seen: seen and replace(seen, until=now + probe_wait(level), level=level))
        elif breaker is None and enough:
            self._write(target, lambda seen: seen or BreakerState(now + FIRST_MS, since=now))
            self._changed(target, "opened")

    def _take_probe(self, seen: QueueState, target: str) -> bool:
        """Be the one worker that probes: the next may after the same wait again."""
        breaker = seen.breakers[target]
        until = self._queue.now() + probe_wait(breaker.level)
        mine = self._queue.store.set_breaker(seen, target, replace(breaker, until=until))
        self._queue.state(fresh=True)
        return mine

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
