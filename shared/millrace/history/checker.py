"""Checking what was recorded against what the queue promises.

A history is what happened to messages, from any number of processes (`log` writes it, `reader` reads it). `at` is
milliseconds by the writer's clock: for `started` the very reading that the claim was judged by. `ending` is written
before an ack or a dead letter is sent, `done` or `dead` after it was answered; so the moment of the commit lies
between the two, and a worker killed in between leaves an `ending` without an answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from millrace.history.liveness import STALLED_AFTER_MS, check_runs, check_waits
from millrace.history.log import HistoryEvent
from millrace.history.records import NEVER, BrokenPromise, Fault, HistoryRecord, LatestEnds, MessageLife, shown
from millrace.model.queue_spec import Ordering


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


def check_history(
    records: Iterable[HistoryRecord],
    *,
    ordering: Ordering = Ordering.UNORDERED,
    statuses: Mapping[str, str] | None = None,
    complete: bool = True,
    skew_ms: int = 0,
    stalled_after_ms: int = STALLED_AFTER_MS,
) -> Verdict:
    """Hold a history against the promises. Pure: it reads nothing but what it is given.

    `statuses` is what the table says of each message ("done", "dead", "purged"; anything else is unfinished). Without
    it an ack that never got its answer counts as done. A message that has not ended is lost where the history is
    `complete`, else unfinished. Clocks may differ by `skew_ms`: what lies closer together is not judged by its time.
    What could run and did not for `stalled_after_ms`, while later messages ran, stood still; 0 does not look for it.
    """
    lives: dict[tuple[str, str], MessageLife] = {}
    for record in records:
        life = lives.setdefault((record.message, record.nonce), MessageLife(record.message))
        life.of[record.event].append(record)
    findings: list[BrokenPromise] = []
    for life in lives.values():
        if complete:
            findings += _check_end(life, statuses)
        findings += [*_check_ends(life, statuses), *_check_refusals(life), *_check_starts(life, skew_ms)]
    if ordering.ordered:
        findings += _check_order(lives.values(), ordering, skew_ms)
    findings += check_runs(lives.values())
    if stalled_after_ms:
        findings += check_waits(lives.values(), ordering, stalled_after_ms)
    return _verdict(list(lives.values()), statuses, findings)


def _verdict(lives: list[MessageLife], statuses: Mapping[str, str] | None, findings: list[BrokenPromise]) -> Verdict:
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


def _check_end(life: MessageLife, statuses: Mapping[str, str] | None) -> Iterator[BrokenPromise]:
    """Accepted means: it ends. The table alone cannot distinguish a lost entry from a finished one: somebody must have
    sent the ack."""
    status = life.status(statuses)
    accepted = life.of[HistoryEvent.ACCEPTED]
    if (accepted or life.ends) and status not in ("done", "dead", "purged"):
        yield BrokenPromise(Fault.LOST, life.message, f"it is {status}; {shown(accepted + life.starts)}")
    if status == "done" and accepted and not (life.ends or life.of[HistoryEvent.ENDING]):
        yield BrokenPromise(Fault.NEVER_ACKED, life.message, f"{len(life.of[HistoryEvent.STARTED])} runs")


def _check_ends(life: MessageLife, statuses: Mapping[str, str] | None) -> Iterator[BrokenPromise]:
    """It ends once: as done or as a dead letter, by one claim. An ack that succeeded may be repeated by its claim."""
    done, dead = life.of[HistoryEvent.DONE], life.of[HistoryEvent.DEAD]
    status = life.status(statuses)
    for ends in (done, dead):
        if len({(record.version, record.owner) for record in ends}) > 1:
            yield BrokenPromise(Fault.ENDED_TWICE, life.message, shown(ends))
    if (done and dead) or (done and status == "dead") or (dead and status == "done"):
        yield BrokenPromise(Fault.DONE_AND_DEAD, life.message, f"{shown(life.ends)}; the table says {status}")


def _check_refusals(life: MessageLife) -> Iterator[BrokenPromise]:
    """A claim that ended its message cannot have been stale before. Afterwards it is: its holder may ask again."""
    for end in life.of[HistoryEvent.DONE]:
        refused = [
            record for record in life.of[HistoryEvent.STALE] if record.version == end.version and record.at < end.at
        ]
        if refused:
            yield BrokenPromise(Fault.NEWEST_REFUSED, life.message, shown([end, *refused]))


def _check_starts(life: MessageLife, skew_ms: int) -> Iterator[BrokenPromise]:
    """Versions only grow, each is run once, and nothing runs once its message has ended."""
    starts = life.starts
    for before, after in pairwise(starts):
        same = after.version == before.version
        if same or (after.version < before.version and after.at - before.at > skew_ms):
            yield BrokenPromise(Fault.VERSION_ORDER, life.message, shown([before, after]))
    for end in life.ends:
        for start in starts:
            if start.version > end.version:
                fault = Fault.STARTED_AFTER_END if start.at > end.at else Fault.STALE_ACK_ACCEPTED
                yield BrokenPromise(fault, life.message, shown([end, start]))


def _check_order(lives: Iterable[MessageLife], ordering: Ordering, skew_ms: int) -> Iterator[BrokenPromise]:
    """A message starts only after every earlier one of its queue or key has ended, or all but those with a place."""
    lines: dict[tuple[str, str, str], list[MessageLife]] = defaultdict(list)
    for life in lives:
        line = life.line(ordering)
        if line is not None:
            lines[line].append(life)
    for together in lines.values():
        yield from _check_line(together, skew_ms)


def _check_line(line: list[MessageLife], skew_ms: int) -> Iterator[BrokenPromise]:
    """One queue's or key's messages. Earlier is what was accepted before the other one's sender began."""
    line = sorted(line, key=lambda life: life.accepted_at)
    accepted = [life.accepted_at for life in line]
    ends = LatestEnds(line)
    free: list[tuple[int, MessageLife] | None] = []  #: behind each: when there was a place, and by whose end
    for life in line:
        ends.put(life.ended_at(), life)
        free.append(ends.free)
    for life in line:
        earlier = bisect_left(accepted, life.sent_at - skew_ms)
        place = free[earlier - 1] if earlier else None
        if place is None or not life.of[HistoryEvent.STARTED]:
            continue
        end_at, holder = place
        start = life.starts[0]
        # One consumer may be handed a batch from the head, to run it in its order.
        together = any((run.at, run.owner) == (start.at, start.owner) for run in holder.of[HistoryEvent.STARTED])
        if start.at + skew_ms < end_at and not together:
            when = "has not ended" if end_at == NEVER else f"ended at {end_at}"
            yield BrokenPromise(Fault.OUT_OF_ORDER, life.message, f"{shown([start])}, and {holder.message} {when}")
