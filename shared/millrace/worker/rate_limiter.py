"""The queue's rate limit, held across all of its workers: starts are reserved in blocks on one shared schedule.

The generic cell rate algorithm: the queue's state holds the time at which the next start is due. A worker moves it
on by as many starts as it has messages (one conditional write a block) and starts each at its own time. A start
that comes too late for its time gives it up and takes a new one, so that late ones never bunch up: any stretch of
T seconds sees at most rate × (T + SLACK) + 1 starts.
"""

from __future__ import annotations

import math

from millrace.engine.queue import Queue

#: A block reaches at most so far ahead: what a dying worker wastes.
BLOCK_MS = 500
#: A start may be so late for its reserved time.
SLACK_MS = 100
#: Tries to reserve before the block is given up; workers that lose go back to waiting.
TRIES = 6


class RateLimiter:
    """Reservations of starts for one queue."""

    def __init__(self, queue: Queue, per_second: float) -> None:
        self._queue = queue
        self._interval_ms = 1000 / per_second
        self.block = max(1, int(BLOCK_MS / self._interval_ms))

    def wait_ms(self) -> int:
        """How long to wait before claiming: others have reserved the time up to then."""
        return max(0, self._queue.state().pace_at - self._queue.now() - BLOCK_MS)

    def reserve(self, count: int) -> list[int]:
        """When each of `count` messages may start, in order; empty when other workers were faster every time."""
        for _ in range(TRIES):
            seen = self._queue.state(fresh=True)
            first = max(seen.pace_at, self._queue.now())
            following = first + math.ceil(count * self._interval_ms)
            if self._queue.store.set_pace(seen, following):
                return [first + math.ceil(number * self._interval_ms) for number in range(count)]
        return []

    def in_time(self, start_at: int) -> bool:
        return self._queue.now() <= start_at + max(SLACK_MS, self._interval_ms)
