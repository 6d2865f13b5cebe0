"""A queue's counters: depth, totals and rates, all in one item of which every write is shared by many messages.

Depth is `entries + credits granted but unspent + endings not yet booked + losses`. It may stand too high after a
crash (the sweep repairs that), never too low: `max_depth` is a promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from millrace.model.clock import DAY, MINUTE
from millrace.model.values import dataclass

#: Minutes for which arrivals and endings are kept; the rate needs the last two.
RATE_MINUTES = 5
#: Credits granted in one minute may be spent until the end of the next.
GRANT_MINUTES = 2
#: Of the messages that were done, so many are remembered: the item stays below one write unit.
RECENT_DONE = 7
#: A sender that took longer than this to write its entry gives up: its credit may be found lost by then.
COMMIT_WITHIN_MS = 60_000
#: How far two machines' clocks may differ before a credit could be spent after the sweep gave it up.
SKEW_MS = 30_000


@dataclass(frozen=True, slots=True)
class BreakerState:
    """A target whose circuit breaker is open: it failed everything, so the queue only probes it."""

    until: int  #: no message is tried on it before this
    level: int = 0  #: probes that failed since it opened
    since: int = 0  #: when it opened


@dataclass(frozen=True, slots=True)
class Slot:
    """A worker's place among those that a queue may have: together they hold `max_concurrency`."""

    number: int
    token: str  #: names the worker that holds it
    until: int  #: free for others from then on


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue's counters, as read. A queue that nobody used yet has them all at zero."""

    tenant: str
    queue: str
    depth: int = 0
    returned: int = 0  #: credits given back since ever; a count that only grows
    epoch: int = 0  #: how often the sweep repaired the depth; an ending booked under an older one does not count
    paused_at: int = 0
    paused_by: str = ""
    arrived: int = 0
    done: int = 0
    failed: int = 0
    dead: int = 0
    grants: Mapping[int, int] = field(default_factory=dict)  #: minute → credits granted in it
    arrivals: Mapping[int, int] = field(default_factory=dict)  #: minute → messages accepted
    endings: Mapping[int, int] = field(default_factory=dict)  #: minute → messages done
    dead_days: Mapping[int, int] = field(default_factory=dict)  #: day of failure → dead letters still there
    pace_at: int = 0  #: when the next start is due under the queue's rate limit
    repaired_at: int = 0
    moved_at: int = 0  #: when anything was last counted
    recent_done: tuple[str, ...] = ()  #: ids of messages that were done lately, newest first; some may be missing
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)  #: target → its open circuit breaker
    listed: bool = False  #: among the queues that the sweep goes over; whoever puts something into it sees to that
    dictionary: str = ""  #: name of the one that bodies are packed with now
    reviewed_at: int = 0  #: when it was last asked whether another dictionary would serve better

    def spendable_grants(self, now: int) -> int:
        """Credits that somebody may still spend, or has spent on an entry that is still on its way into the table."""
        first = (now - COMMIT_WITHIN_MS - SKEW_MS) // MINUTE - GRANT_MINUTES + 1
        return sum(count for minute, count in self.grants.items() if minute >= first)

    def per_minute(self, now: int) -> tuple[float, float]:
        """Messages accepted and done in the last minute: the running one, and of the one before the part in reach."""
        running, elapsed = divmod(now, MINUTE)
        part = 1 - elapsed / MINUTE
        counts = (self.arrivals, self.endings)
        arrived, done = (count.get(running, 0) + part * count.get(running - 1, 0) for count in counts)
        return arrived, done

    def dead_letters(self, now: int, kept_seconds: int) -> int:
        """Dead letters that can still be inspected."""
        first = (now - kept_seconds * 1000) // DAY
        return sum(count for day, count in self.dead_days.items() if day >= first)

    def stale_days(self, now: int, kept_seconds: int) -> tuple[int, ...]:
        """Days whose dead letters are all gone by their time."""
        first = (now - kept_seconds * 1000) // DAY - 1
        return tuple(sorted(day for day in self.dead_days if day < first))

    def stale_minutes(self, now: int) -> tuple[int, ...]:
        """Minutes that no reader needs any more: whoever writes next takes them out."""
        first = now // MINUTE - RATE_MINUTES - 1
        return tuple(sorted({m for m in (*self.grants, *self.arrivals, *self.endings) if m < first}))


@dataclass(frozen=True, slots=True)
class CreditRequest:
    """Credits wanted from the counter, and the arrivals to book with them."""

    count: int
    max_depth: int
    now: int
    arrived: int = 0
    stale_minutes: tuple[int, ...] = ()

    @property
    def minute(self) -> int:
        return self.now // MINUTE


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What a batch of endings adds up to: one write however many they are."""

    now: int
    epoch: int = 0
    ended: int = 0  #: entries out of the queue: so many credits come back
    done: int = 0
    failed: int = 0
    arrived: int = 0
    unspent: int = 0  #: credits handed back unused, still within their time
    dead: Mapping[int, int] = field(default_factory=dict)  #: day of failure → dead letters come (+) or gone (-)
    recent_done: tuple[str, ...] = ()  #: written as they are, where there are any
    stale_minutes: tuple[int, ...] = ()
    stale_days: tuple[int, ...] = ()

    @property
    def minute(self) -> int:
        return self.now // MINUTE

    @property
    def credits(self) -> int:
        return self.ended + self.unspent
