"""Checking what workers wrote down against what the queue promises.

A history is JSON lines, one for each thing that happened to a message, from any number of processes:

    {"at": 1800000000000, "event": "started", "message": "…", "version": 3, "owner": "w1", "key": "", "sequence": 7}

`at` is milliseconds by the writer's clock: for `started` the very reading that the claim was judged by. `ending` is
written before an ack or a rejection is sent, `done` or `dead` after it was answered; so the moment of the commit
lies between the two, and a worker killed in between leaves an `ending` without an answer. `sequence` is the
message's number in the order of its queue (fifo) or key (per_key).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from millrace.spec import Ordering


class Event(StrEnum):
    """What happened to a message."""

    ACCEPTED = "accepted"  #: its sender had a receipt
    STARTED = "started"  #: a run began under a claim
    ENDING = "ending"  #: an ack or a rejection is about to be sent
    DONE = "done"  #: the ack was recorded
    FAILED = "failed"  #: the run failed and will be repeated
    DEAD = "dead"  #: it became a dead letter
    STALE = "stale"  #: something was refused because the claim was not the newest
    RELEASED = "released"  #: given back without a run


class Fault(StrEnum):
    """A promise that was broken."""

    LOST = "lost"  #: accepted, and it ended neither as done nor as a dead letter
    ACKED_TWICE = "acked twice"
    DONE_AND_DEAD = "done and dead"
    NEVER_ACKED = "never acked"  #: the table has it done, but nobody sent an ack
    STARTED_AFTER_DONE = "started after done"
    STALE_ACK_ACCEPTED = "stale ack accepted"
    VERSION_ORDER = "version order"  #: two runs under one version, or a later run under an older one
    NEWEST_REFUSED = "newest refused"  #: a claim that ended its message was refused too
    OUT_OF_ORDER = "out of order"  #: started before an earlier one of its queue or key had ended


class MalformedHistory(Exception):
    """A line of a history is not a record."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a history."""

    at: int
    event: Event
    message: str
    version: int = 0
    owner: str = ""
    queue: str = ""
    key: str = ""
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise, with what shows it."""

    fault: Fault
    message: str
    shown_by: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history adds up to; sound when nothing was found."""

    accepted: int
    done: int
    dead: int
    unanswered: int  #: done by the table, while the ack's sender was killed before it had the answer
    stale: int  #: refused for a stale claim, as they must be
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        return not self.findings

    def count(self, fault: Fault) -> int:
        return sum(finding.fault is fault for finding in self.findings)


@dataclass(slots=True)
class _Life:
    """All records of one message, by what happened."""

    message: str
    of: dict[Event, list[Record]] = field(default_factory=lambda: defaultdict(list))

    def ended(self) -> bool:
        return bool(self.of[Event.DONE] or self.of[Event.DEAD])


def read_records(lines: Iterable[str]) -> Iterator[Record]:
    """The records of one file. A last line without its end is left out: its writer was killed at it.

    Raises MalformedHistory with the line's number for anything else that is not a record.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedHistory(f"Line {number} is not a record: {type(error).__name__}: {error}.") from error


def _record(fields: Mapping[str, object]) -> Record:
    sequence = fields.get("sequence")
    return Record(
        at=int(str(fields["at"])),
        event=Event(str(fields["event"])),
        message=str(fields["message"]),
        version=int(str(fields.get("version", 0))),
        owner=str(fields.get("owner", "")),
        queue=str(fields.get("queue", "")),
        key=str(fields.get("key", "")),
        sequence=None if sequence is None else int(str(sequence)),
    )


def check_history(
    records: Iterable[Record],
    *,
    ordering: Ordering = Ordering.UNORDERED,
    phases: Mapping[str, str] | None = None,
) -> Verdict:
    """Hold a complete history against the promises. Pure: it reads nothing but what it is given.

    `phases` is what the table says of each message ("done", "dead", anything else is unfinished). Without it an ack
    that never got its answer counts as done.
    """
    lives: dict[str, _Life] = {}
    for record in records:
        life = lives.setdefault(record.message, _Life(record.message))
        life.of[record.event].append(record)
    findings: list[Finding] = []
    unanswered = 0
    for life in lives.values():
        findings += [*_check_end(life, phases), *_check_acks(life), *_check_starts(life)]
        unanswered += _unanswered(life, phases)
    if ordering.ordered:
        findings += _check_order(lives.values(), ordering)
    done = sum(bool(life.of[Event.DONE]) for life in lives.values())
    return Verdict(
        accepted=sum(bool(life.of[Event.ACCEPTED]) for life in lives.values()),
        done=done + unanswered,
        dead=sum(_is_dead(life, phases) for life in lives.values()),
        unanswered=unanswered,
        stale=sum(len(life.of[Event.STALE]) for life in lives.values()),
        findings=tuple(findings),
    )


def _phase(life: _Life, phases: Mapping[str, str] | None) -> str:
    """How the message stands: by the table, or by the records alone."""
    if phases is not None:
        return phases.get(life.message, "missing")
    if life.of[Event.DEAD]:
        return "dead"
    return "done" if life.of[Event.DONE] or life.of[Event.ENDING] else "unfinished"


def _is_dead(life: _Life, phases: Mapping[str, str] | None) -> bool:
    return bool(life.of[Event.DEAD]) or _phase(life, phases) == "dead"


def _unanswered(life: _Life, phases: Mapping[str, str] | None) -> bool:
    return _phase(life, phases) == "done" and not life.ended() and bool(life.of[Event.ENDING])


def _check_end(life: _Life, phases: Mapping[str, str] | None) -> Iterator[Finding]:
    """Accepted means: ends as done or as a dead letter, exactly one of them.

    The table alone cannot tell a lost entry from a finished one: somebody must have sent the ack.
    """
    phase = _phase(life, phases)
    accepted, done, dead = life.of[Event.ACCEPTED], life.of[Event.DONE], life.of[Event.DEAD]
    if (accepted or done or dead) and phase not in ("done", "dead"):
        yield Finding(Fault.LOST, life.message, f"the table says {phase}")
    if phase == "done" and accepted and not (done or dead or life.of[Event.ENDING]):
        yield Finding(Fault.NEVER_ACKED, life.message, f"{len(life.of[Event.STARTED])} runs")
    if (done and dead) or (done and phase == "dead") or (dead and phase == "done"):
        yield Finding(Fault.DONE_AND_DEAD, life.message, f"{_shown(done + dead)}; the table says {phase}")


def _check_acks(life: _Life) -> Iterator[Finding]:
    done = life.of[Event.DONE]
    if len(done) > 1:
        yield Finding(Fault.ACKED_TWICE, life.message, _shown(done))
    ended = {record.version for record in done}
    refused = [record for record in life.of[Event.STALE] if record.version in ended]
    if refused:
        yield Finding(Fault.NEWEST_REFUSED, life.message, _shown(done + refused))


def _check_starts(life: _Life) -> Iterator[Finding]:
    """Versions only grow, each is run once, and nothing runs once its message is done."""
    starts = sorted(life.of[Event.STARTED], key=lambda record: (record.at, record.version))
    for before, after in pairwise(starts):
        if after.version <= before.version:
            yield Finding(Fault.VERSION_ORDER, life.message, _shown([before, after]))
    for done in life.of[Event.DONE]:
        for start in starts:
            if start.version > done.version:
                late = start.at > done.at
                fault = Fault.STARTED_AFTER_DONE if late else Fault.STALE_ACK_ACCEPTED
                yield Finding(fault, life.message, _shown([done, start]))


def _check_order(lives: Iterable[_Life], ordering: Ordering) -> Iterator[Finding]:
    """A message starts only after every earlier one of its queue or key has ended.

    Earlier is what its sender had a receipt for before it got the other's: those of one batch may overtake.
    """
    lines: dict[tuple[str, str], list[_Life]] = defaultdict(list)
    for life in lives:
        if life.of[Event.ACCEPTED] and life.of[Event.STARTED]:
            first = life.of[Event.ACCEPTED][0]
            lines[first.queue, first.key if ordering is Ordering.PER_KEY else ""].append(life)
    for line in lines.values():
        yield from _check_line(sorted(line, key=_sequence))


def _check_line(line: list[_Life]) -> Iterator[Finding]:
    """One queue's or key's messages in their order: the latest end so far must lie before the next start."""
    latest_end, holder, accepted_at = 0, line[0], 0
    waiting: list[_Life] = []
    for life in line:
        accepted = min(record.at for record in life.of[Event.ACCEPTED])
        if accepted > accepted_at:
            for earlier in waiting:
                if (end := _ended_at(earlier)) > latest_end:
                    latest_end, holder = end, earlier
            waiting, accepted_at = [], accepted
        first_start = min(life.of[Event.STARTED], key=lambda record: record.at)
        if first_start.at < latest_end:
            shown = f"{_shown([first_start])} before {holder.message} ended at {latest_end}"
            yield Finding(Fault.OUT_OF_ORDER, life.message, shown)
        waiting.append(life)


def _sequence(life: _Life) -> int:
    return life.of[Event.ACCEPTED][0].sequence or 0


def _ended_at(life: _Life) -> int:
    """The earliest moment at which it can have ended: when the ack that succeeded was sent."""
    ends = life.of[Event.DONE] or life.of[Event.DEAD] or life.of[Event.ENDING][-1:]
    ending = {record.version for record in ends}
    sent = [record.at for record in life.of[Event.ENDING] if record.version in ending]
    return min([*sent, *(record.at for record in ends)], default=0)


def _shown(records: Iterable[Record]) -> str:
    return ", ".join(f"{r.event} version {r.version} by {r.owner or '?'} at {r.at}" for r in records)


def count_events(records: Iterable[Record]) -> Counter[Event]:
    """How often each thing happened."""
    return Counter(record.event for record in records)
