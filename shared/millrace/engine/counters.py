"""Booking endings: many in one write.

Endings are booked at once, since they make room; what ends nothing is noted, and goes with the next write.
"""

from __future__ import annotations

from millrace.engine.queue import Queue
from millrace.model.clock import DAY
from millrace.model.queue_state import CounterDelta


def note_failure(queue: Queue) -> None:
    """Count a failed run."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.failed += 1


def note_dead(queue: Queue, failed_at: int, count: int = 1) -> None:
    """Count dead letters that came (or, below zero, went)."""
    with queue.runtime.pending_counters.collect(queue.tenant, queue.spec.name) as pending:
        pending.dead[failed_at // DAY] += count


def book_endings(queue: Queue, epoch: int, ended: int, *, done: int = 0) -> None:
    """Give back the credits of entries that ended, and write what was noted.

    `epoch` is the queue's as it was seen before the entries were taken out: where the sweep has mended the depth
    since, it has counted them already.
    """
    pending = queue.runtime.pending_counters.take_out(queue.tenant, queue.spec.name)
    now, state, kept = queue.now(), queue.state(), queue.spec.retention.dead_letter_seconds
    delta = CounterDelta(
        now,
        epoch=epoch,
        ended=ended,
        done=done,
        failed=pending.failed,
        dead=pending.dead,
        stale_minutes=state.stale_minutes(now),
        stale_days=tuple(day for day in state.stale_days(now, kept) if day not in pending.dead),
    )
    settled = queue.store.settle(queue.tenant, queue.spec.name, delta)
    if settled is not None:
        queue.cache_state(settled)


def flush(queue: Queue) -> None:
    """Write what was noted, if anything was."""
    if queue.runtime.pending_counters.holds(queue.tenant, queue.spec.name):
        book_endings(queue, queue.state().epoch, 0)
