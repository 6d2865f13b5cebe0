"""Waiting for messages: one reader for all consumers that wait on a queue in this process.

Whoever stands first in a queue's line looks at the table for everybody: one read a second while nothing is there.
It hands what it finds to the line in order, leaves with its own, and the next one in line goes on. `notify` (called
when this process enqueues, or when a stream says so) makes it look at once. Nobody runs in the background: with no
consumer waiting, nothing is read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from millrace.engine.claim import Claimed, claim
from millrace.engine.poll import EVERYTHING, Filter
from millrace.engine.queue import Queue
from millrace.model.errors import MillraceError
from millrace.model.keys import END, READY, WAITING
from millrace.pull.waiting_places import Leave, ProcessPlaces, WaitingPlaces

#: Entries that a look reads: enough to see past a few that others hold.
LOOK = 10
#: Between looks that saw entries and could claim none: at first, and doubled up to the longest interval.
FIRST_RETRY_MS = 50


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """How often an idle queue is looked at while somebody waits."""

    intervals_ms: tuple[int, ...]  #: after the first look that brought nothing, the second, and so on
    every_shard: bool  #: each time, or one after the other


#: For a process that many consumers share: one read a second, however many wait.
SHARED = PollSchedule((1_000,), every_shard=False)
#: For an instance that serves one request at a time: soon at first, since nobody can notify it.
LONE = PollSchedule((200, 400, 800, 1_000), every_shard=True)

ConditionFactory = Callable[[threading.Lock], threading.Condition]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a consumer wants."""

    owner: str
    limit: int = 1
    lease_ms: int | None = None
    only: Filter = EVERYTHING
    token_id: str = ""  #: on whose account it waits


@dataclass(eq=False, slots=True)
class _Waiter:
    demand: Demand
    deadline: int
    woken: threading.Condition
    served: bool = False  #: somebody is claiming for it right now
    outcome: Claimed | MillraceError | None = None
    leave: Leave | None = None  #: gives up its place, once it has one


@dataclass(slots=True)
class _WaitingLine:
    """The consumers that wait on one queue, first come first served; its first one looks for all."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiters: deque[_Waiter] = field(default_factory=deque)
    looking: bool = False
    look_at: int = 0  #: nothing is worth reading before this
    sure_at: int | None = None  #: from then on something is known to have come: claim, do not merely peek
    unseen: bool = True  #: nobody has looked lately: look at every shard
    idle: int = 0  #: looks in a row that brought nothing
    shard: int = 0  #: partition to look at next

    def next_look(self) -> int:
        return self.look_at if self.sure_at is None else min(self.look_at, self.sure_at)


class Dispatcher:
    """Hands out messages to waiting consumers. Safe to share between threads."""

    def __init__(
        self,
        *,
        schedule: PollSchedule = LONE,
        places: WaitingPlaces | None = None,
        condition: ConditionFactory = threading.Condition,
    ) -> None:
        self._schedule = schedule
        self._places = places or ProcessPlaces()
        self._condition = condition
        self._lines: dict[tuple[str, str], _WaitingLine] = {}
        self._lock = threading.Lock()

    def take(self, queue: Queue, demand: Demand, wait_ms: int) -> Claimed:
        """What can be claimed now, else what comes within `wait_ms`. Raises TooManyWaiting."""
        if not wait_ms:
            return _claim(queue, demand, sharing=False)
        line = self._line(queue.tenant, queue.spec.name)
        with line.lock:
            now = queue.now()
            if not line.waiters and now - line.look_at > self._schedule.intervals_ms[-1]:
                line.unseen, line.idle = True, 0
            waiter = _Waiter(demand, now + wait_ms, self._condition(line.lock))
            line.waiters.append(waiter)
        try:
            return self._wait(queue, line, waiter)
        finally:
            with line.lock:
                if waiter in line.waiters:
                    line.waiters.remove(waiter)
                self._wake_first(line)
            if waiter.leave is not None:
                waiter.leave()

    def notify(self, tenant: str, queue: str, at: int = 0) -> None:
        """Something may be there for a queue's consumers (from `at` on): look at once (or then)."""
        line = self._line(tenant, queue)
        with line.lock:
            line.sure_at = at if line.sure_at is None else min(line.sure_at, at)
            if not at:
                line.idle = 0
            self._wake_first(line)

    def waiting(self, tenant: str, queue: str) -> int:
        """How many consumers wait."""
        line = self._line(tenant, queue)
        with line.lock:
            return len(line.waiters)

    def _line(self, tenant: str, queue: str) -> _WaitingLine:
        with self._lock:
            return self._lines.setdefault((tenant, queue), _WaitingLine())

    @staticmethod
    def _wake_first(line: _WaitingLine) -> None:
        if line.waiters:
            line.waiters[0].woken.notify()

    def _wait(self, queue: Queue, line: _WaitingLine, waiter: _Waiter) -> Claimed:
        while True:
            with line.lock:
                now = queue.now()
                if isinstance(waiter.outcome, MillraceError):
                    raise waiter.outcome
                if waiter.outcome is not None:
                    return waiter.outcome
                if now >= waiter.deadline and not waiter.served:
                    return Claimed([], line.next_look())
                first = line.waiters[0] is waiter and not line.looking
                if not first or now < line.next_look():
                    if waiter.leave is None and not waiter.served:
                        waiter.leave = self._places.enter(queue, waiter.demand.token_id, waiter.deadline)
                    until = min(waiter.deadline, line.next_look()) if first else waiter.deadline
                    # While somebody claims for it, it waits for what comes of that, however late.
                    waiter.woken.wait(None if waiter.served else max(until - now, 1) / 1000)
                    continue
                sure = line.sure_at is not None and now >= line.sure_at
                if sure:
                    line.sure_at = None
                line.looking = True
            self._lead(queue, line, waiter, sure=sure)

    def _lead(self, queue: Queue, line: _WaitingLine, leader: _Waiter, *, sure: bool) -> None:
        """One look for the whole line, and when the next one is due."""
        found, existing, next_at = False, sure, None
        try:
            if not sure:
                existing, next_at = self._peek(queue, line)
            if existing:
                found, next_at = self._serve(queue, line, leader)
        finally:
            with line.lock:
                line.looking = False
                if found:
                    line.sure_at, line.idle = 0, 0
                else:
                    line.look_at = self._next_look(line, queue.now(), next_at, existing=existing and not sure)
                    line.idle += 1

    def _next_look(self, line: _WaitingLine, now: int, next_at: int | None, *, existing: bool) -> int:
        intervals = self._schedule.intervals_ms
        interval = intervals[min(line.idle, len(intervals) - 1)]
        if existing:
            # Seen and not to be had: paused, held, not committed yet, or not what these consumers want.
            return now + min(FIRST_RETRY_MS << min(line.idle, 10), intervals[-1])
        return now + interval if next_at is None else min(now + interval, max(next_at, now + FIRST_RETRY_MS))

    def _peek(self, queue: Queue, line: _WaitingLine) -> tuple[bool, int | None]:
        partitions = queue.partitions()
        everywhere, line.unseen = self._schedule.every_shard or line.unseen, False
        if not everywhere:
            line.shard = (line.shard + 1) % len(partitions)
            partitions = [partitions[line.shard]]
        seen = [_peek(queue, pk) for pk in partitions]
        return any(existing for existing, _ in seen), min((at for _, at in seen if at is not None), default=None)

    def _serve(self, queue: Queue, line: _WaitingLine, leader: _Waiter) -> tuple[bool, int | None]:
        """Claim for each in line, by its own demand: whether anybody got something, else when that may be.

        The leader stops once it has its own: its lease is running. Consumers who want the same are asked for once.
        """
        tried: set[Filter] = set()
        found, next_at = False, None
        while True:
            with line.lock:
                waiter = next((w for w in line.waiters if w.outcome is None and w.demand.only not in tried), None)
                if waiter is None:
                    return found, next_at
                waiter.served = True
            outcome: Claimed | MillraceError | None = None
            try:
                claimed = _claim(queue, waiter.demand)
                outcome = claimed if claimed.claims else None
                next_at = claimed.next_at if next_at is None else min(next_at, claimed.next_at or next_at)
            except MillraceError as error:
                outcome = error
            finally:
                with line.lock:
                    waiter.served = False
                    waiter.outcome = outcome
                    waiter.woken.notify()
            if outcome is None:
                tried.add(waiter.demand.only)
            else:
                found = True
                if waiter is leader:
                    return True, None


def _claim(queue: Queue, demand: Demand, *, sharing: bool = True) -> Claimed:
    return claim(
        queue,
        owner=demand.owner,
        limit=demand.limit,
        lease_ms=demand.lease_ms,
        only=demand.only,
        sharing=sharing,
    )


def _peek(queue: Queue, pk: str) -> tuple[bool, int | None]:
    """Whether something may be claimable in a partition, or when it will be: one read.

    Both lanes lie behind each other, ready before waiting, and the waiting one by due time: so the first entries
    tell all, unless others hold every one of them.
    """
    now = queue.now()
    page = queue.store.read_lane(pk, READY, WAITING + END, LOOK)
    next_at: int | None = None
    for entry in page.items:
        free_at = max(entry.until, entry.due)
        if free_at <= now:
            return True, None
        next_at = free_at if next_at is None else min(next_at, free_at)
    return page.next is not None, next_at
