"""Checking what was recorded against what the queue promises.

A history is what happened to messages, from any number of processes (`recording` writes it, `history_reading` reads
it). `at` is milliseconds by the writer's clock: for `started` the very reading that the claim was judged by. `ending`
is written before an ack or a dead letter is sent, `done` or `dead` after it was answered; so the moment of the commit
lies between the two, and a worker killed in between leaves an `ending` without an answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

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


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One broken promise, with what shows it."""

    fault: Fault
    message: str
    shown_by: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history adds up to; sound when nothing was found."""

    accepted: int
    started: int  #: runs
    done: int
    dead: int
    purged: int  #: removed by an operator
    unfinished: tuple[str, ...]  #: accepted or started, and not ended yet
    unanswered: int  #: counted as done: an ack was sent, and its sender did not live to record the answer
    repeats: int  #: runs of a message whose run before neither failed nor was given back: its worker was lost
    stale: int  #: refused for a stale claim, as they must be
    findings: tuple[BrokenPromise, ...]

    @property
    def sound(self) -> bool:
        return not self.findings

    def count(self, *faults: Fault) -> int:
        return sum(finding.fault in faults for finding in self.findings)


@dataclass(slots=True)
class _Life:
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


def check_history(
    records: Iterable[HistoryRecord],
    *,
    ordering: Ordering = Ordering.UNORDERED,
    statuses: Mapping[str, str] | None = None,
    complete: bool = True,
    skew_ms: int = 0,
) -> Verdict:
    """Hold a history against the promises. Pure: it reads nothing but what it is given.

    `statuses` is what the table says of each message ("done", "dead", "purged"; anything else is unfinished). Without
    it an ack that never got its answer counts as done. A message that has not ended is lost where the history is
    `complete`, else unfinished. Clocks may differ by `skew_ms`: what lies closer together is not judged by its time.
    """
    lives: dict[tuple[str, str], _Life] = {}
    for record in records:
        life = lives.setdefault((record.message, record.nonce), _Life(record.message))
        life.of[record.event].append(record)
    findings: list[BrokenPromise] = []
    for life in lives.values():
        if complete:
            findings += _check_end(life, statuses)
        findings += [*_check_ends(life, statuses), *_check_refusals(life), *_check_starts(life, skew_ms)]
    if ordering.ordered:
        findings += _check_order(lives.values(), ordering, skew_ms)
    return _verdict(list(lives.values()), statuses, findings)


def _verdict(lives: list[_Life], statuses: Mapping[str, str] | None, findings: list[BrokenPromise]) -> Verdict:
    stands = Counter(life.status(statuses) for life in lives)
    unfinished = [life.message for life in lives if life.status(statuses) not in ("done", "dead", "purged")]
    return Verdict(
        accepted=sum(bool(life.of[HistoryEvent.ACCEPTED]) for life in lives),
        started=sum(len(life.of[HistoryEvent.STARTED]) for life in lives),
        done=stands["done"],
        dead=stands["dead"],
        purged=stands["purged"],
        unfinished=tuple(unfinished),
        unanswered=sum(life.unanswered(statuses) for life in lives),
        repeats=sum(life.repeats() for life in lives),
        stale=sum(len(life.of[HistoryEvent.STALE]) for life in lives),
        findings=tuple(findings),
    )


def _check_end(life: _Life, statuses: Mapping[str, str] | None) -> Iterator[BrokenPromise]:
    """Accepted means: it ends. The table alone cannot distinguish a lost entry from a finished one: somebody must have
    sent the ack."""
    status = life.status(statuses)
    accepted = life.of[HistoryEvent.ACCEPTED]
    if (accepted or life.ends) and status not in ("done", "dead", "purged"):
        yield BrokenPromise(Fault.LOST, life.message, f"it is {status}; {_shown(accepted + life.starts)}")
    if status == "done" and accepted and not (life.ends or life.of[HistoryEvent.ENDING]):
        yield BrokenPromise(Fault.NEVER_ACKED, life.message, f"{len(life.of[HistoryEvent.STARTED])} runs")


def _check_ends(life: _Life, statuses: Mapping[str, str] | None) -> Iterator[BrokenPromise]:
    """It ends once: as done or as a dead letter, by one claim. An ack that succeeded may be repeated by its claim."""
    done, dead = life.of[HistoryEvent.DONE], life.of[HistoryEvent.DEAD]
    status = life.status(statuses)
    for ends in (done, dead):
        if len({(record.version, record.owner) for record in ends}) > 1:
            yield BrokenPromise(Fault.ENDED_TWICE, life.message, _shown(ends))
    if (done and dead) or (done and status == "dead") or (dead and status == "done"):
        yield BrokenPromise(Fault.DONE_AND_DEAD, life.message, f"{_shown(life.ends)}; the table says {status}")


def _check_refusals(life: _Life) -> Iterator[BrokenPromise]:
    """A claim that ended its message cannot have been stale before. Afterwards it is: its holder may ask again."""
    for end in life.of[HistoryEvent.DONE]:
        refused = [
            record for record in life.of[HistoryEvent.STALE] if record.version == end.version and record.at < end.at
        ]
        if refused:
            yield BrokenPromise(Fault.NEWEST_REFUSED, life.message, _shown([end, *refused]))


def _check_starts(life: _Life, skew_ms: int) -> Iterator[BrokenPromise]:
    """Versions only grow, each is run once, and nothing runs once its message has ended."""
    starts = life.starts
    for before, after in pairwise(starts):
        same = after.version == before.version
        if same or (after.version < before.version and after.at - before.at > skew_ms):
            yield BrokenPromise(Fault.VERSION_ORDER, life.message, _shown([before, after]))
    for end in life.ends:
        for start in starts:
            if start.version > end.version:
                fault = Fault.STARTED_AFTER_END if start.at > end.at else Fault.STALE_ACK_ACCEPTED
                yield BrokenPromise(fault, life.message, _shown([end, start]))


def _check_order(lives: Iterable[_Life], ordering: Ordering, skew_ms: int) -> Iterator[BrokenPromise]:
    """A message starts only after every earlier one of its queue or key has ended."""
    lines: dict[tuple[str, str, str], list[_Life]] = defaultdict(list)
    for life in lives:
        accepted = life.of[HistoryEvent.ACCEPTED]
        if accepted and accepted[0].sequence is not None:
            first = accepted[0]
            lines[first.tenant, first.queue, first.key if ordering is Ordering.PER_KEY else ""].append(life)
    for line in lines.values():
        yield from _check_line(line, skew_ms)


def _check_line(line: list[_Life], skew_ms: int) -> Iterator[BrokenPromise]:
    """One queue's or key's messages. Earlier is what was accepted before the other one's sender began."""
    line = sorted(line, key=lambda life: life.accepted_at)
    accepted = [life.accepted_at for life in line]
    last: list[tuple[int, _Life]] = []  #: the latest end so far, and whose it is
    for life in line:
        end = (_ended_at(life), life)
        last.append(max(last[-1], end, key=lambda one: one[0]) if last else end)
    for life in line:
        earlier = bisect_left(accepted, life.sent_at - skew_ms)
        if not earlier or not life.of[HistoryEvent.STARTED]:
            continue
        end_at, holder = last[earlier - 1]
        start = life.starts[0]
        # One consumer may be handed a batch from the head, to run it in its order.
        together = any((run.at, run.owner) == (start.at, start.owner) for run in holder.of[HistoryEvent.STARTED])
        if start.at + skew_ms < end_at and not together:
            when = "has not ended" if end_at == NEVER else f"ended at {end_at}"
            yield BrokenPromise(Fault.OUT_OF_ORDER, life.message, f"{_shown([start])}, and {holder.message} {when}")


def _ended_at(life: _Life) -> int:
    """The earliest moment at which it can have ended: when the ack that succeeded was sent."""
    if life.of[HistoryEvent.PURGED]:
        return 0
    ends = life.ends or life.of[HistoryEvent.ENDING][-1:]
    ending = {record.version for record in ends}
    sent = [record.at for record in life.of[HistoryEvent.ENDING] if record.version in ending]
    return min([*sent, *(record.at for record in ends)], default=NEVER)


def _shown(records: Iterable[HistoryRecord]) -> str:
    return ", ".join(f"{r.event} version {r.version} by {r.owner or '?'} at {r.at}" for r in records)
