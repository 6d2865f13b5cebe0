"""Counting what happens to a queue: many endings in one write.

Endings are written at once, since they make room; failures and dead letters end nothing by themselves, so they are
collected, and go with the next write.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millrace.model.clock import DAY
from millrace.model.queue_state import RECENT_DONE, CounterDelta

if TYPE_CHECKING:
    from millrace.engine.queue import Queue


@dataclass(slots=True)
class PendingDelta:
    """What one process has counted for a queue and not written yet."""

    failed: int = 0
    dead: Counter[int] = field(default_factory=Counter)  #: day of failure → dead letters come (+) or gone (-)


class PendingCounters:
    """The pending counts of one process, by queue. Safe to share between threads."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str], PendingDelta] = {}
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


def note_failure(queue: Queue) -> None:
    """Count a failed run."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.failed += 1


def note_dead(queue: Queue, failed_at: int, count: int = 1) -> None:
    """Count dead letters that came (or, below zero, went)."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.dead[failed_at // DAY] += count


def book_endings(queue: Queue, epoch: int, ended: int, *, done: Sequence[str] = ()) -> None:
    """Give back the credits of entries that ended, and write what is pending.

    `epoch` is the queue's as it was seen before the entries were taken out: where the sweep has repaired the depth
    since, it has counted them already. The ids of what is done join the newest that the queue remembers.
    """
    pending = queue.runtime.pending_counters.take_out(queue.tenant, queue.spec.name)
    now, state, kept = queue.now(), queue.state(), queue.spec.retention.dead_letter_seconds
    delta = CounterDelta(
        now,
        epoch=epoch,
        ended=ended,
        done=len(done),
        failed=pending.failed,
        dead=pending.dead,
        recent_done=(*reversed(done), *state.recent_done)[:RECENT_DONE] if done else (),
        stale_minutes=state.stale_minutes(now),
        stale_days=tuple(day for day in state.stale_days(now, kept) if day not in pending.dead),
    )
    settled = queue.store.settle(queue.tenant, queue.spec.name, delta)
    if settled is not None:
        queue.cache_state(settled)


def flush(queue: Queue) -> None:
    """Write what is pending, if anything is."""
    if queue.runtime.pending_counters.holds(queue.tenant, queue.spec.name):
        book_endings(queue, queue.state().epoch, 0)
