"""Does what may run, run soon, and no more often than it may?

Judged from the records alone: a message could run from when it was accepted or given back, and due, and in an ordered
queue behind nothing unfinished. Long waits are no fault by themselves, since workers may all be busy; they are one
where a message that came `stalled_after_ms` after it could run, with no higher priority, was started before it.
A run whose worker was lost is not followed: how far its lease was extended is not recorded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace.history.log import HistoryEvent
from millrace.history.records import NEVER, BrokenPromise, Fault, HistoryRecord, LatestEnds, MessageLife, shown
from millrace.model.queue_spec import Ordering

STALLED_AFTER_MS = 60_000


def check_runs(lives: Iterable[MessageLife]) -> Iterator[BrokenPromise]:
    """No message runs more often than `max_attempts`. A run that was given back is not charged, nor is it judged
    where its claim was refused as stale. The highest setting that the history has for a queue counts."""
    lives = list(lives)
    allowed: dict[tuple[str, str], int] = defaultdict(int)
    for life in lives:
        for record in life.accepted:
            queue = record.tenant, record.queue
            allowed[queue] = max(allowed[queue], record.max_attempts)
    for life in lives:
        most = allowed[life.accepted[0].tenant, life.accepted[0].queue] if life.accepted else 0
        free = {record.version for event in (HistoryEvent.RELEASED, HistoryEvent.STALE) for record in life.of[event]}
        charged = {start.version: start for start in life.starts if start.version not in free}
        if most and len(charged) > most:
            evidence = f"{len(charged)} runs, {most} allowed: {shown(charged.values())}"
            yield BrokenPromise(Fault.TOO_MANY_RUNS, life.message, evidence)


@dataclass(frozen=True, slots=True)
class _Wait:
    """A time in which a message could run."""

    life: MessageLife
    since: int
    until: int  #: when it was started or ended; NEVER if the history ends before


def check_waits(lives: Iterable[MessageLife], ordering: Ordering, stalled_after_ms: int) -> Iterator[BrokenPromise]:
    """No message is left standing that could run while messages that came much later are started."""
    queues: dict[tuple[str, str], list[MessageLife]] = defaultdict(list)
    for life in lives:
        if life.accepted:
            queues[life.accepted[0].tenant, life.accepted[0].queue].append(life)
    for queue in queues.values():
        unblocked = _unblocked(queue, ordering)
        started = _Started(queue)
        for life in queue:
            for wait in _waits(life, unblocked.get(id(life), 0)):
                passed_by = started.passed_by(wait, stalled_after_ms)
                if passed_by is not None:
                    waited = f"could run since {wait.since}, {_until(wait)}"
                    yield BrokenPromise(Fault.STOOD_STILL, life.message, f"{waited}; {_overtaking(passed_by)}")


def _until(wait: _Wait) -> str:
    return "was never started" if wait.until == NEVER else f"waited until {wait.until}"


def _overtaking(life: MessageLife) -> str:
    return f"{life.message} came at {life.accepted_at}: {shown(life.starts[:1])}"


def _waits(life: MessageLife, unblocked_at: int) -> Iterator[_Wait]:
    """From when it was accepted or given back under a claim, until something came of a later claim."""
    begins = [(0, max(life.accepted_at, *(record.due for record in life.accepted)))]
    begins += [(record.version, max(record.at, record.due)) for record in life.of[HistoryEvent.RELEASED]]
    begins += [(record.version, record.due) for record in life.of[HistoryEvent.FAILED] if record.due]
    ended = [record.at for record in (*life.ends, *life.of[HistoryEvent.PURGED])]
    claimed = [*life.of[HistoryEvent.STARTED], *life.of[HistoryEvent.ENDING]]
    for version, begin in begins:
        over = min([*ended, *(record.at for record in claimed if record.version > version)], default=NEVER)
        yield _Wait(life, max(begin, unblocked_at), over)


def _unblocked(lives: list[MessageLife], ordering: Ordering) -> dict[int, int]:
    """When an ordered message's line had a place for it: everything earlier had ended, or all but a few."""
    lines: dict[tuple[str, str, str], list[tuple[int, MessageLife]]] = defaultdict(list)
    for life in lives:
        line, sequence = life.line(ordering), life.accepted[0].sequence
        if line is not None and sequence is not None:
            lines[line].append((sequence, life))
    unblocked: dict[int, int] = {}
    for together in lines.values():
        ends = LatestEnds(life for _, life in together)
        for _, life in sorted(together, key=lambda one: one[0]):
            unblocked[id(life)] = ends.free[0] if ends.free else 0
            ends.put(_over_at(life), life)
    return unblocked


def _over_at(life: MessageLife) -> int:
    """When it was surely out of the way of what stands behind it."""
    records: list[HistoryRecord] = [*life.ends, *life.of[HistoryEvent.PURGED]]
    return max((record.at for record in records), default=NEVER)


class _Started:
    """For each priority of a queue: its messages by when they came, and the earliest first start from each on."""

    def __init__(self, lives: list[MessageLife]) -> None:
        self._levels: dict[int, tuple[list[int], list[tuple[int, MessageLife]]]] = {}
        levels: dict[int, list[tuple[int, int, MessageLife]]] = defaultdict(list)
        for life in lives:
            if life.of[HistoryEvent.STARTED]:
                levels[_priority(life)].append((life.accepted_at, life.starts[0].at, life))
        for priority, found in levels.items():
            found.sort(key=lambda one: one[0])
            earliest: list[tuple[int, MessageLife]] = []
            for _, at, life in reversed(found):
                earliest.append(min(earliest[-1], (at, life), key=lambda one: one[0]) if earliest else (at, life))
            self._levels[priority] = [came for came, _, _ in found], earliest[::-1]

    def passed_by(self, wait: _Wait, stalled_after_ms: int) -> MessageLife | None:
        """A message that came so much later, has no higher priority, and was started while this one waited."""
        if wait.until - wait.since <= stalled_after_ms:
            return None
        for priority, (came, earliest) in self._levels.items():
            later = bisect_left(came, wait.since + stalled_after_ms)
            if priority <= _priority(wait.life) and later < len(came) and earliest[later][0] < wait.until:
                return earliest[later][1]
        return None


def _priority(life: MessageLife) -> int:
    return max(record.priority for record in life.accepted)
