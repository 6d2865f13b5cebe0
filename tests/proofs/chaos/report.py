"""What a chaos run came to: the checker's verdict, the tables' truth, what the senders saw."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from millrace.history.checker import Verdict
from millrace.history.log import HistoryEvent
from millrace.history.reader import LogRecords
from millrace.history.records import Fault, HistoryRecord
from millrace.model.message import DeadLetter
from tests.faults.schedule import FaultKind
from tests.proofs.chaos.senders import Sent, behaviour

DONE = re.compile(rb'"event":"done","at":(\d+)')


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was injected."""

    at: int  #: ms
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a run, and what is wrong with it."""

    verdict: Verdict
    sent: Sent
    injected: Sequence[InjectedFault]
    recovery_ms: Mapping[FaultKind, int]
    longest_life_ms: int
    canaries: int
    canaries_lost: int
    dumb: int  #: engines that answered nothing any more and were started again
    history_lines: int
    drain_s: float
    wrongs: Sequence[str]  #: besides the verdict's findings

    @property
    def right(self) -> bool:
        return self.verdict.sound and not self.wrongs

    def table(self) -> Table:
        table = Table(title="Chaos", show_header=False)
        for name, value in self._rows().items():
            table.add_row(name, value)
        return table

    def _rows(self) -> dict[str, str]:
        verdict, sent = self.verdict, self.sent
        kinds = Counter(fault.kind for fault in self.injected)
        good = {name: count for name, count in sent.answers.items() if name in ("200", "202")}
        bad = {name: count for name, count in sorted(sent.answers.items()) if name not in good}
        return {
            "accepted": f"{len(sent.accepted):,}",
            "done": f"{verdict.done:,}",
            "dead": f"{verdict.dead:,}",
            "lost": f"{verdict.count(Fault.LOST, Fault.NEVER_ACKED):,}",
            "duplicate starts (their worker was lost)": f"{verdict.repeats:,}",
            "ended twice": f"{verdict.count(Fault.ENDED_TWICE, Fault.DONE_AND_DEAD):,}",
            "stale acks refused": f"{verdict.stale:,}",
            "stale acks accepted": f"{verdict.count(Fault.STALE_ACK_ACCEPTED):,}",
            "started after their end": f"{verdict.count(Fault.STARTED_AFTER_END):,}",
            "out of order": f"{verdict.count(Fault.OUT_OF_ORDER, Fault.VERSION_ORDER):,}",
            "posts repeated by their senders": f"{sent.repeats:,}",
            "posts not accepted": ", ".join(f"{name}: {count:,}" for name, count in bad.items()) or "0",
            **{kind.value: self._injected(kind, kinds[kind]) for kind in FaultKind},
            "longest life of a message": f"{self.longest_life_ms / 1000:.1f} s",
            "drained after the last post": f"{self.drain_s:.1f} s",
            "runs · lines of history": f"{verdict.started:,} · {self.history_lines:,}",
            "transactions of the canary · lost by the engine": f"{self.canaries:,} · {self.canaries_lost:,}",
            "engines that came up and answered nothing, started again": f"{self.dumb:,}",
        }

    def _injected(self, kind: FaultKind, count: int) -> str:
        return f"{count}; longest until the next was done: {self.recovery_ms.get(kind, 0) / 1000:.1f} s"


class Followed:
    """Follows the logs while they are written: when a message was done last."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._read: dict[Path, int] = {}
        self.done_at = 0

    def look(self) -> None:
        for path in self._logs.glob("*.log"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                news = file.read().rpartition(b"\n")[0]
            self._read[path] = self._read.get(path, 0) + len(news)
            done = [int(at) for at in DONE.findall(news)]
            self.done_at = max([self.done_at, *done])


def may_inject(kind: FaultKind, injected: Iterable[InjectedFault], done_at: int) -> bool:
    """Whether something was done since the last fault of this kind, and since the engine was killed.

    On a slow machine the stack would never come up otherwise, and nothing would be shown.
    """
    return all(fault.at < done_at for fault in injected if fault.kind in (kind, FaultKind.KILL_ENGINE))


def read_history(logs: Path) -> tuple[list[HistoryRecord], LogRecords]:
    """Everything that the processes recorded."""
    log = LogRecords()
    records: list[HistoryRecord] = []
    for path in sorted(logs.glob("*.log")):
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            records += log.read(path.name, lines)
    return records, log


def recoveries(records: Iterable[HistoryRecord], injected: Iterable[InjectedFault]) -> dict[FaultKind, int]:
    """For each kind of fault, the longest time from one to the next message that was done."""
    done = sorted(record.at for record in records if record.event is HistoryEvent.DONE)
    longest: dict[FaultKind, int] = {}
    for fault in injected:
        following = bisect_right(done, fault.at)
        if following < len(done):
            longest[fault.kind] = max(longest.get(fault.kind, 0), done[following] - fault.at)
    return longest


def longest_life(records: Iterable[HistoryRecord]) -> int:
    """The longest time from a message's acceptance to its end."""
    accepted: dict[str, int] = {}
    ended: dict[str, int] = {}
    for record in records:
        if record.event is HistoryEvent.ACCEPTED:
            accepted[record.message] = min(record.at, accepted.get(record.message, record.at))
        elif record.event in (HistoryEvent.DONE, HistoryEvent.DEAD):
            ended[record.message] = record.at
    return max((end - accepted[message] for message, end in ended.items() if message in accepted), default=0)


def wrongs_of(
    sent: Sent,
    statuses: Mapping[str, str],
    dead_letters: Iterable[DeadLetter],
    runs: Mapping[str, int],
    max_attempts: int,
) -> list[str]:
    """What the senders' own receipts, the dead letters and the number of runs say against it."""
    wrongs = [f"{m} ran {count} times, of {max_attempts} allowed" for m, count in runs.items() if count > max_attempts]
    number_of: dict[str, int] = {}
    for (hook, n), ids in sent.ids.items():
        if len(ids) > 1:
            wrongs.append(f"{hook} {n} was accepted as {len(ids)} messages: {', '.join(sorted(ids))}")
        number_of.update(dict.fromkeys(ids, n))
        missing = [message_id for message_id in ids if statuses.get(message_id, "missing") not in ("done", "dead")]
        wrongs += [f"{hook} {n} was accepted and is {statuses.get(m, 'missing')}: {m}" for m in missing]
        if behaviour(n) in ("fails", "rejects"):
            wrongs += [f"{hook} {n} can never succeed and is done" for m in ids if statuses.get(m) == "done"]
    for dead_letter in dead_letters:
        n = number_of.get(dead_letter.message.id, 0)
        lost_workers = any(attempt.error_type == "WorkerLost" for attempt in dead_letter.history)
        if dead_letter.message.id in number_of and behaviour(n) in ("good", "stumbles") and not lost_workers:
            wrongs.append(f"{dead_letter.message.id} died of {dead_letter.error_type}: {dead_letter.error}")
    refused = {name: count for name, count in sent.answers.items() if name.startswith("4")}
    wrongs += [f"{count} posts were answered {name}: {sent.examples[name]}" for name, count in refused.items()]
    return wrongs
