"""Counting what happens to a queue: many endings in one write.

Endings make room, so they are written at once; failures and dead letters end nothing by themselves, so they are
collected, and go with the next write. While a worker drains a busy queue its endings are collected too, in proportion
to what all workers end together, as the counter shows it: the item is written so many times a second at any load.
Near the queue's limit, and below some 1,000 endings a second, that is at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millrace.engine.credits import COUNTER_WRITES, LEAST_MEASURED_MS
from millrace.model.clock import DAY
from millrace.model.queue_state import RECENT_DONE, CounterDelta, QueueState

if TYPE_CHECKING:
    from millrace.engine.queue import Queue

#: Endings wait no longer than this for others to share their write.
MAX_WAIT_MS = 5_000


@dataclass(slots=True)
class PendingDelta:
    """What one process has counted for a queue and not written yet."""

    failed: int = 0
    dead: Counter[int] = field(default_factory=Counter)  #: day of failure → dead letters come (+) or gone (-)
    ended: int = 0
    epoch: int = 0  #: the oldest that any of them was seen under: where it is over, the sweep has counted them
    done: int = 0
    done_ids: tuple[str, ...] = ()  #: the newest first
    since: int = 0  #: when the first ending came

    def end(self, epoch: int, ended: int, done: Sequence[str], now: int) -> None:
        self.epoch = min(self.epoch, epoch) if self.ended else epoch
        self.since = self.since if self.ended else now
        self.ended += ended
        self.done += len(done)
        self.done_ids = (*reversed(done), *self.done_ids)[:RECENT_DONE]


@dataclass(slots=True)
class EndingRate:
    """How fast all processes together give credits back, as the counter shows it from one write to the next."""

    returned: int
    at: int
    per_second: float = 0.0


class PendingCounters:
    """The pending counts of one process, by queue. Safe to share between threads."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str], PendingDelta] = {}
        self._rates: dict[tuple[str, str], EndingRate] = {}
        self._drained: Counter[tuple[str, str]] = Counter()  #: workers at each queue that will flush it
        self._lock = threading.Lock()

    @contextmanager
    def collect(self, tenant: str, queue: str) -> Iterator[PendingDelta]:
        """The queue's pending counts, to add to."""
        with self._lock:
            yield self._pending.setdefault((tenant, queue), PendingDelta())

    def take_out(self, tenant: str, queue: str) -> PendingDelta:
        """The queue's pending counts, which the caller writes."""
        with self._lock:
            return self._pending.pop((tenant, queue), PendingDelta())

    def holds(self, tenant: str, queue: str) -> bool:
        with self._lock:
            return (tenant, queue) in self._pending

    @contextmanager
    def drained(self, tenant: str, queue: str) -> Iterator[None]:
        """While a worker drains the queue: its endings may wait for each other. The caller flushes afterwards."""
        with self._lock:
            self._drained[tenant, queue] += 1
        try:
            yield
        finally:
            with self._lock:
                self._drained[tenant, queue] -= 1

    def is_due(self, tenant: str, queue: str, room: int, now: int) -> bool:
        """Whether endings are to be written now: enough of them came together, or one has waited for long."""
        with self._lock:
            pending, rate = self._pending.get((tenant, queue)), self._rates.get((tenant, queue))
            if pending is None or not pending.ended:
                return False
            if not self._drained[tenant, queue] or rate is None or now - pending.since >= MAX_WAIT_MS:
                return True
            return pending.ended >= min(rate.per_second / COUNTER_WRITES, room // 64)

    def measure(self, state: QueueState, now: int) -> None:
        """Learn from a write's answer how fast credits come back."""
        with self._lock:
            before = self._rates.get((state.tenant, state.queue))
            rate = EndingRate(state.returned, now)
            if before is not None:
                elapsed = max(now - before.at, LEAST_MEASURED_MS)
                rate.per_second = max(0, state.returned - before.returned) * 1000 / elapsed
            self._rates[state.tenant, state.queue] = rate


def note_failure(queue: Queue) -> None:
    """Count a failed run."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.failed += 1


def note_dead(queue: Queue, failed_at: int, count: int = 1) -> None:
    """Count dead letters that came (or, below zero, went)."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.dead[failed_at // DAY] += count


def book_endings(queue: Queue, epoch: int, ended: int, *, done: Sequence[str] = ()) -> None:
    """Give back the credits of entries that ended, now or with others of this worker, and write what is pending.

    `epoch` is the queue's as it was seen before the entries were taken out: where the sweep has repaired the depth
    since, it has counted them already. The ids of what is done join the newest that the queue remembers.
    """
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.end(epoch, ended, done, queue.now())
    book_what_is_due(queue)


def book_what_is_due(queue: Queue) -> None:
    """Write pending endings where their time has come."""
    if not queue.runtime.pending_counters.holds(queue.tenant, queue.spec.name):
        return
    room = queue.spec.retention.max_depth - queue.state().depth
    if queue.runtime.pending_counters.is_due(queue.tenant, queue.spec.name, room, queue.now()):
        _write(queue)


def flush(queue: Queue) -> None:
    """Write what is pending, if anything is."""
    if queue.runtime.pending_counters.holds(queue.tenant, queue.spec.name):
        _write(queue)


def _write(queue: Queue) -> None:
    pending = queue.runtime.pending_counters.take_out(queue.tenant, queue.spec.name)
    now, state, kept = queue.now(), queue.state(), queue.spec.retention.dead_letter_seconds
    delta = CounterDelta(
        now,
        epoch=pending.epoch if pending.ended else state.epoch,
        ended=pending.ended,
        done=pending.done,
        failed=pending.failed,
        dead=pending.dead,
        recent_done=(*pending.done_ids, *state.recent_done)[:RECENT_DONE] if pending.done else (),
        stale_minutes=state.stale_minutes(now),
        stale_days=tuple(day for day in state.stale_days(now, kept) if day not in pending.dead),
    )
    settled = queue.store.settle(queue.tenant, queue.spec.name, delta)
    if settled is not None:
        queue.runtime.pending_counters.measure(settled, now)
        queue.cache_state(settled)
