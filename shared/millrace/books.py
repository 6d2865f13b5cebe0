"""Booking endings: many in one write.

Endings are booked at once, since they make room; failures that end nothing wait for the next write.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millrace.accounting import Tally
from millrace.clock import DAY

if TYPE_CHECKING:
    from millrace.queue import Queue


@dataclass(slots=True)
class _Pending:
    done: int = 0
    failed: int = 0
    dead: Counter[int] = field(default_factory=Counter)


class Books:
    """What one process still has to book, for every queue."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._lock = threading.Lock()

    def failed(self, queue: Queue) -> None:
        """Count a failed run; it is written with the next ending."""
        with self._lock:
            self._of(queue).failed += 1

    def ended(self, queue: Queue, epoch: int, ended: int, *, done: int = 0) -> None:
        """Give back the credits of entries that ended, and write what is pending.

        `epoch` is the queue's as it was seen before the entries were taken out: where the sweep has mended the depth
        since, it has counted them already.
        """
        with self._lock:
            pending = self._pending.pop((queue.tenant, queue.spec.name), _Pending())
        now = queue.now()
        tally = Tally(
            now,
            epoch=epoch,
            ended=ended,
            done=done,
            failed=pending.failed,
            dead=pending.dead,
            stale_minutes=queue.state().stale_minutes(now),
        )
        state = queue.store.settle(queue.tenant, queue.spec.name, tally)
        if state is not None:
            queue.saw(state)

    def died(self, queue: Queue, failed_at: int, count: int = 1) -> None:
        """Count dead letters that came (or, below zero, went)."""
        with self._lock:
            self._of(queue).dead[failed_at // DAY] += count

    def flush(self, queue: Queue) -> None:
        """Write what is pending, if anything is."""
        with self._lock:
            waiting = (queue.tenant, queue.spec.name) in self._pending
        if waiting:
            self.ended(queue, -1, 0)

    def _of(self, queue: Queue) -> _Pending:
        return self._pending.setdefault((queue.tenant, queue.spec.name), _Pending())
