"""Places for consumers that wait: a bound for each token and one over the deployment, so that waiting starves nobody.

A consumer that waits holds a Lambda instance, or a connection of the local stack, for up to 20 s; without a bound one
token could hold them all, and webhooks would find none. A place is taken only by who finds nothing and is about to
wait, so a busy queue pays nothing for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

from millrace.engine.queue import Queue
from millrace.http.problems import TooManyWaiting
from millrace.model.ids import random_token
from millrace.model.queue_state import Slot

#: Over a deployment, and for one token.
MAX_WAITING, MAX_WAITING_PER_TOKEN = 400, 100
#: A process that died leaves its place free so long after it would have stopped waiting.
GRACE_MS = 5_000
#: Places tried that others were faster to take, before the answer is that there is none.
TRIES = 3

Leave = Callable[[], None]


class WaitingPlaces(Protocol):
    """Where a consumer may wait."""

    def enter(self, queue: Queue, token_id: str, until: int) -> Leave:
        """Take a place until then; what is returned gives it up. Raises TooManyWaiting."""


class ProcessPlaces:
    """Places of one process that serves every request of its deployment, as the local stack does: counted in memory."""

    def __init__(self, most: int = MAX_WAITING, per_token: int = MAX_WAITING_PER_TOKEN) -> None:
        self._most = most
        self._per_token = per_token
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, queue: Queue, token_id: str, until: int) -> Leave:  # noqa: ARG002 (a process frees what it held)
        with self._lock:
            if self._waiting[token_id] >= self._per_token or self._waiting.total() >= self._most:
                raise TooManyWaiting(queue.spec.name, min(self._per_token, self._most))
            self._waiting[token_id] += 1
        return lambda: self._leave(token_id)

    def _leave(self, token_id: str) -> None:
        with self._lock:
            self._waiting[token_id] -= 1
            if not self._waiting[token_id]:
                del self._waiting[token_id]


class TablePlaces:
    """Places of a deployment, in the table: as many numbers as may wait in all, of which each token may use some.

    Which ones follows from its id, so both bounds hold by one conditional write, without a counter, and no token can
    take the places of all others. One write to take a place and one to give it up; one query more where the first
    choice is held.
    """

    def __init__(self, most: int = MAX_WAITING, per_token: int = MAX_WAITING_PER_TOKEN) -> None:
        self._most = most
        self._per_token = min(per_token, most)

    def numbers(self, token_id: str) -> list[int]:
        """The places that a token may use."""
        return Random(token_id).sample(range(self._most), self._per_token)  # noqa: S311 (no secret: it spreads)

    def enter(self, queue: Queue, token_id: str, until: int) -> Leave:
        numbers = self.numbers(token_id)
        first = int(queue.runtime.chance() * len(numbers)) % len(numbers)
        order = free = numbers[first:] + numbers[:first]
        holder = random_token(queue.runtime.entropy)
        for _ in range(TRIES):
            slot = Slot(free[0], holder, until + GRACE_MS)
            if queue.store.take_slot(*_OWNER, slot, queue.now()):
                return lambda: queue.store.free_slot(*_OWNER, slot)
            now = queue.now()
            held = {other.number for other in queue.store.list_slots(*_OWNER) if other.until > now}
            free = [number for number in order if number not in held]
            if not free:
                break
        raise TooManyWaiting(queue.spec.name, self._per_token)


#: Whose slots they are: no tenant has an empty name.
_OWNER = ("", "waiting")
