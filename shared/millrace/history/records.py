"""What a history consists of: records of what happened, the lives of messages made of them, and broken promises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count, pairwise

from millrace.history.log import HistoryEvent
from millrace.model.queue_spec import Ordering

#: Later than every end.
NEVER = 1 << 62


class Fault(StrEnum):
    """A promise that was broken."""

    LOST = "lost"  #: accepted, and it ended neither as done nor as a dead letter
    ENDED_TWICE = "ended twice"  #: by two claims
    DONE_AND_DEAD = "done and dead"
    NEVER_ACKED = "never acked"  #: the table has it done, but nobody sent an ack
    STARTED_AFTER_END = "started after its end"
    STALE_ACK_ACCEPTED = "stale ack accepted"
    VERSION_ORDER = "version order"  #: two runs under one version, or a later run under an older one
    NEWEST_REFUSED = "newest refused"  #: a claim was refused and ended its message afterwards
    OUT_OF_ORDER = "out of order"  #: started before an earlier one of its queue or key had ended
    TOO_MANY_RUNS = "too many runs"  #: more than its queue's `max_attempts`
    STOOD_STILL = "stood still"  #: it could run, and did not, while messages that came much later ran


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One thing that happened to one message."""

    at: int
    event: HistoryEvent
    message: str
    version: int = 0
    owner: str = ""
    queue: str = ""
    key: str = ""  #: of an ordered queue: the line that the message stands in
    sequence: int | None = None  #: its number there; None where no order is promised
    tenant: str = ""
    nonce: str = ""  #: an id may be used again once its window is over: distinguishes its lives
    sent: int | None = None  #: when the sender of an accepted message began; unless given, when it was accepted
    due: int = 0  #: when it may run, if not at once: accepted with a delay, or given back for a time
    priority: int = 0
    max_attempts: int = 0  #: of the queue when it was accepted; 0 where the log does not say
    places: int = 0  #: of a key, where its queue lets several run at once


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One broken promise, with what shows it."""

    fault: Fault
    message: str
    shown_by: str


@dataclass(slots=True)
class MessageLife:
    """All records of one life of a message, by what happened."""

    message: str
    of: dict[HistoryEvent, list[HistoryRecord]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ends(self) -> list[HistoryRecord]:
        return [*self.of[HistoryEvent.DONE], *self.of[HistoryEvent.DEAD]]

    @property
    def starts(self) -> list[HistoryRecord]:
        return sorted(self.of[HistoryEvent.STARTED], key=lambda record: (record.at, record.version))

    @property
    def accepted(self) -> list[HistoryRecord]:
        return self.of[HistoryEvent.ACCEPTED]

    @property
    def accepted_at(self) -> int:
        return min(record.at for record in self.of[HistoryEvent.ACCEPTED])

    @property
    def sent_at(self) -> int:
        return min(record.at if record.sent is None else record.sent for record in self.of[HistoryEvent.ACCEPTED])

    def status(self, statuses: Mapping[str, str] | None) -> str:
        """How the message stands: by the table, or by the records alone."""
        if statuses is not None:
            return statuses.get(self.message, "missing")
        for event in (HistoryEvent.DEAD, HistoryEvent.DONE, HistoryEvent.PURGED):
            if self.of[event]:
                return event.value
        return "done" if self._in_doubt() else "unfinished"

    def _in_doubt(self) -> bool:
        """An ack was sent, nobody knows its answer, and no run has come after it."""
        sent = max((record.version for record in self.of[HistoryEvent.ENDING]), default=-1)
        return sent >= max((record.version for record in self.of[HistoryEvent.STARTED]), default=0)

    def unanswered(self, statuses: Mapping[str, str] | None) -> bool:
        return self.status(statuses) == "done" and not self.ends and bool(self.of[HistoryEvent.ENDING])

    def repeats(self) -> int:
        over = {record.version for event in (HistoryEvent.FAILED, HistoryEvent.RELEASED) for record in self.of[event]}
        versions = sorted({record.version for record in self.of[HistoryEvent.STARTED]})
        return sum(before not in over for before, _ in pairwise(versions))

    def ended_at(self) -> int:
        """The earliest moment at which it can have ended: when the ack that succeeded was sent. NEVER if it did not."""
        if self.of[HistoryEvent.PURGED]:
            return 0
        ends = self.ends or self.of[HistoryEvent.ENDING][-1:]
        ending = {record.version for record in ends}
        sent = [record.at for record in self.of[HistoryEvent.ENDING] if record.version in ending]
        return min([*sent, *(record.at for record in ends)], default=NEVER)

    def line(self, ordering: Ordering) -> tuple[str, str, str] | None:
        """Where an ordered queue's message stands: its tenant, queue and key. None where no order is promised."""
        if not ordering.ordered or not self.accepted or self.accepted[0].sequence is None:
            return None
        first = self.accepted[0]
        return first.tenant, first.queue, first.key if ordering is Ordering.PER_KEY else ""


class LatestEnds:
    """When all but a few of the messages put in so far had ended, and which was the last of those."""

    def __init__(self, lives: Iterable[MessageLife]) -> None:
        self._places = max((record.places for life in lives for record in life.accepted), default=0) or 1
        self._latest: list[tuple[int, int, MessageLife]] = []
        self._numbers = count()

    def put(self, ended_at: int, life: MessageLife) -> None:
        heappush(self._latest, (ended_at, -next(self._numbers), life))
        if len(self._latest) > self._places:
            heappop(self._latest)

    @property
    def free(self) -> tuple[int, MessageLife] | None:
        """From when on there was a place behind them; None where there was one all along."""
        if len(self._latest) < self._places:
            return None
        ended_at, _, life = self._latest[0]
        return ended_at, life


def shown(records: Iterable[HistoryRecord]) -> str:
    """Records as evidence, in one line."""
    return ", ".join(f"{r.event} version {r.version} by {r.owner or '?'} at {r.at}" for r in records)
