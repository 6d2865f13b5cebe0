"""The hammer: many processes at one queue, some killed, some stopped past their leases, until everything has ended."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local.dynamodb import REGION
from millrace.engine.queue import Queue
from millrace.history.checker import Verdict, check_history
from millrace.history.log import HistoryEvent
from millrace.history.reader import read_records
from millrace.history.records import HistoryRecord
from millrace.model.errors import StoreUnavailable
from millrace.model.keys import END
from millrace.stores.dynamodb.client import dynamodb_client
from tests.proofs.hammer.journal import Follower
from tests.proofs.hammer.worker import Assignment, Worker

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LOOK_S = 0.05
#: A process crashes in so many of its lives at most, so that the work gets done.
CRASHING_LIVES = 3
GAVE_UP = 75


class HammerStuck(Exception):
    """The queue did not drain in time."""


@dataclass(slots=True)
class Report:
    """What a run of the hammer came to."""

    verdict: Verdict
    kills: int
    self_kills: int
    gave_up: int  #: processes that ended because the table did not answer
    stops: int
    taken_over: int  #: stops during which another process took over a claim
    orphans: int  #: entries left behind by senders killed between their two writes
    seconds: float


@dataclass(slots=True)
class _Stopped:
    process: ForkProcess
    owner: str
    runs: set[str]  #: messages that it was running
    until: float


@dataclass(slots=True)
class Progress:
    """What the histories say so far."""

    accepted: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    in_doubt: set[str] = field(default_factory=set)
    runs: dict[str, HistoryRecord] = field(default_factory=dict)  #: message → its newest run

    def see(self, record: HistoryRecord) -> None:
        match record.event:
            case HistoryEvent.ACCEPTED:
                self.accepted.add(record.message)
            case HistoryEvent.DONE | HistoryEvent.DEAD:
                self.ended.add(record.message)
            case HistoryEvent.ENDING:
                self.in_doubt.add(record.message)
            case HistoryEvent.STARTED:
                before = self.runs.get(record.message)
                if before is None or before.version < record.version:
                    self.runs[record.message] = record
            case HistoryEvent.FAILED | HistoryEvent.RELEASED:
                self.runs.pop(record.message, None)

    def runs_of(self, owner: str) -> set[str]:
        """What a process is at, and has not begun to end."""
        over = self.ended | self.in_doubt
        return {m for m, run in self.runs.items() if run.owner == owner and m not in over}


class Hammer:
    """Starts the processes, kills and stops them at seeded moments, starts them again, and waits for the end."""

    def __init__(
        self, assignment: Assignment, client: DynamoDBClient, *, kills: int, stops: int, shown: Callable[[int], None]
    ) -> None:
        self.plan = assignment
        self.client = client
        self.own_client: DynamoDBClient | None = None
        self.chance = random.Random(assignment.seed)
        self.shown = shown
        self.kills = self.self_kills = self.gave_up = self.stops = self.taken_over = 0
        total = assignment.messages
        self.kill_at = sorted(self.chance.randrange(total * 9 // 10) for _ in range(kills))
        self.stop_at = sorted(self.chance.randrange(total * 9 // 10) for _ in range(stops))
        self.processes: dict[int, tuple[ForkProcess, int]] = {}
        self.stopped: _Stopped | None = None
        self.progress = Progress()
        self.follower = Follower(assignment.folder)

    def run(self, within_s: float) -> Report:
        """Everything sent and ended, or HammerStuck."""
        begun = time.monotonic()
        try:
            for number in range(self.plan.processes):
                self._start(number, 0)
            while not self._over():
                if time.monotonic() - begun > within_s:
                    raise HammerStuck(f"{len(self.progress.ended)} of {self.plan.messages} ended in {within_s} s")
                self._look()
                time.sleep(LOOK_S)
        finally:
            self._end_all()
        seconds = time.monotonic() - begun
        for record in self.follower.news():
            self.progress.see(record)
        self.shown(len(self.progress.ended))
        queue = self._own_queue()
        orphans, statuses = table_statuses(queue, self.progress.accepted)
        verdict = check_history(all_records(self.plan.folder), ordering=self.plan.ordering, statuses=statuses)
        return Report(verdict, self.kills, self.self_kills, self.gave_up, self.stops, self.taken_over, orphans, seconds)

    def _own_queue(self) -> Queue:
        """With a client of its own: the children's must not have a connection open when they are forked."""
        if self.own_client is None:
            self.own_client = dynamodb_client(endpoint_url=self.client.meta.endpoint_url, region=REGION)
        return self.plan.queue(self.own_client)

    def _start(self, number: int, incarnation: int) -> None:
        crashes = incarnation < CRASHING_LIVES and self.chance.random() < 0.7
        assignment = replace(
            self.plan,
            number=number,
            incarnation=incarnation,
            dies_at=self.chance.randrange(3, 60) if crashes else None,
            dies_after=self.chance.random() < 0.5,
        )
        process = multiprocessing.get_context("fork").Process(target=_work, args=(assignment, self.client), daemon=True)
        process.start()
        self.processes[number] = (process, incarnation)

    def _look(self) -> None:
        for record in self.follower.news():
            self.progress.see(record)
        ended = len(self.progress.ended)
        self.shown(ended)
        self._revive()
        if self.kill_at and ended >= self.kill_at[0]:
            self._kill()
        if self.stopped:
            self._maybe_continue(self.stopped)
        elif self.stop_at and ended >= self.stop_at[0]:
            self._stop()

    def _revive(self) -> None:
        for number, (process, incarnation) in list(self.processes.items()):
            if not process.is_alive():
                self.self_kills += process.exitcode == -signal.SIGKILL
                self.gave_up += process.exitcode == GAVE_UP
                self._start(number, incarnation + 1)

    def _kill(self) -> None:
        number = self.chance.randrange(self.plan.processes)
        process, incarnation = self.processes[number]
        if self.stopped and self.stopped.process is process:
            return
        self.kill_at.pop(0)
        process.kill()
        process.join()
        self.kills += 1
        self._start(number, incarnation + 1)

    def _stop(self) -> None:
        """Hold a process that has runs going, so that its claims run out under it."""
        number = self.chance.randrange(self.plan.processes)
        process, incarnation = self.processes[number]
        owner = f"w{number}.{incarnation}"
        if not (process.is_alive() and process.pid and self.progress.runs_of(owner)):
            return
        os.kill(process.pid, signal.SIGSTOP)
        for record in self.follower.news():
            self.progress.see(record)
        runs = self.progress.runs_of(owner)
        self.stopped = _Stopped(process, owner, runs, time.monotonic() + 5 * self.plan.lease_ms / 1000)
        if runs:
            self.stop_at.pop(0)
            self.stops += 1
        else:
            self._continue(self.stopped)

    def _maybe_continue(self, stopped: _Stopped) -> None:
        """Once another has taken over one of its claims it goes on, with a stale claim in its hand."""
        runs = self.progress.runs
        taken = any(m in runs and runs[m].owner != stopped.owner for m in stopped.runs)
        if taken or time.monotonic() > stopped.until:
            self.taken_over += taken
            self._continue(stopped)

    def _continue(self, stopped: _Stopped) -> None:
        if stopped.process.pid and stopped.process.is_alive():
            os.kill(stopped.process.pid, signal.SIGCONT)
        self.stopped = None

    def _over(self) -> bool:
        """Every kill was dealt, everything was accepted, and nothing but orphans is left in the table."""
        progress = self.progress
        if self.kill_at or len(progress.accepted) < self.plan.messages:
            return False
        if not progress.accepted <= progress.ended | progress.in_doubt:
            return False
        queue = self._own_queue()
        left = {entry_id for entry_id, nonce in _entries(queue) if _committed(queue, entry_id, nonce)}
        return self.stopped is None and not left & progress.accepted

    def _end_all(self) -> None:
        for process, _ in self.processes.values():
            process.kill()
        for process, _ in self.processes.values():
            process.join()


def _work(assignment: Assignment, client: DynamoDBClient) -> None:
    try:
        Worker(assignment, client).run()
    except StoreUnavailable:
        raise SystemExit(GAVE_UP) from None


def _entries(queue: Queue) -> Iterator[tuple[str, str]]:
    for pk in queue.partitions():
        cursor: str | None = "A"
        while cursor is not None:
            page = queue.store.read_lane(pk, cursor, END, 500)
            yield from ((entry.id, entry.nonce) for entry in page.items)
            cursor = page.next


def _committed(queue: Queue, message_id: str, nonce: str) -> bool:
    message = queue.store.get_messages([message_id]).get(message_id)
    return message is not None and message.nonce == nonce


def table_statuses(queue: Queue, accepted: set[str]) -> tuple[int, dict[str, str]]:
    """How many orphans the table holds, and what it says of each accepted message.

    As the library says it of one: an entry → unfinished; a dead letter → dead; a message with neither → done.
    """
    messages = queue.store.get_messages(sorted(accepted))
    statuses = dict.fromkeys(messages, "done")
    orphans = 0
    for message_id, nonce in _entries(queue):
        if message_id in messages and messages[message_id].nonce == nonce:
            statuses[message_id] = "unfinished"
        else:
            orphans += 1
    cursor: str | None = "0"
    while cursor is not None:
        page = queue.store.read_dead_letters(queue.tenant, queue.spec.name, cursor, END, 500)
        statuses.update((dead_letter.message.id, "dead") for dead_letter in page.items)
        cursor = page.next
    return orphans, statuses


def all_records(folder: Path) -> Iterator[HistoryRecord]:
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as file:
            yield from read_records(file)
