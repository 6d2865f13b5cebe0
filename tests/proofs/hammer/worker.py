"""One of the hammering processes: sends its share of the messages, and works on whatever the queue gives it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from millrace.engine.claim import Claim, claim
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, extend, nack, reject, release
from millrace.engine.queue import Queue, Runtime
from millrace.history.log import HistoryEvent
from millrace.history.records import HistoryRecord
from millrace.model.errors import MillraceError, StaleClaim
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, QueueSpec, RetryPolicy
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryBlobs
from tests.faults.crashes import CrashingStore
from tests.proofs.hammer.journal import Journal, accepted_in

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEYS_A_PROCESS = 3
#: One message in so many is refused for good by its handler; one run in so many fails and is repeated.
POISON, FAILS = 100, 40
#: One batch in so many is extended, one takes its time.
EXTENDS, SLOW = 10, 10
IDLE_S, SLOW_S = 0.05, 0.2


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a process is to do, and when it is to die."""

    tables: TableNames
    tenant: str
    ordering: Ordering
    lease_ms: int
    batch: int
    messages: int  #: of all processes
    processes: int
    number: int  #: of this process, from 0
    incarnation: int  #: how often it was started before
    seed: int
    folder: Path
    dies_at: int | None = None  #: the store call at which it kills itself
    dies_after: bool = False

    @property
    def owner(self) -> str:
        return f"w{self.number}.{self.incarnation}"

    @property
    def history(self) -> Path:
        return self.folder / f"{self.number}.jsonl"

    def queue(self, client: DynamoDBClient) -> Queue:
        store = CrashingStore(DynamoStore(client, self.tables), dies_at=self.dies_at, dies_after=self.dies_after)
        return Runtime(cast(Store, store), MemoryBlobs()).queue(self.tenant, self.spec())

    def spec(self) -> QueueSpec:
        return QueueSpec(
            "Hammer",
            ordering=self.ordering,
            delivery=RetryPolicy(max_attempts=1000, initial_backoff_ms=50, max_backoff_ms=200),
            idempotency=Idempotency(cache_result=self.seed % 2 == 0),
            lease_seconds=self.lease_ms / 1000,
        )


class Worker:
    """Sends and works in turns until its share is sent, then works until it is ended."""

    def __init__(self, assignment: Assignment, client: DynamoDBClient) -> None:
        self.assignment = assignment
        self.queue = assignment.queue(client)
        self.journal = Journal(assignment.history)
        self.chance = random.Random(f"{assignment.seed}/{assignment.owner}")

    def run(self) -> None:
        for drafts in self._shares():
            self._send(drafts)
            self._work()
        while True:
            if not self._work():
                time.sleep(IDLE_S)

    # -- sending --
    def _shares(self) -> Iterator[list[tuple[int, Draft]]]:
        """Its own messages, but for those that an earlier incarnation had a receipt for.

        In an ordered queue one process sends everything: between two senders there is no order to check.
        """
        a = self.assignment
        sent = accepted_in(a.history)
        senders = 1 if a.ordering is Ordering.FIFO else a.processes
        mine = range(a.number, a.messages, senders) if a.number < senders else range(0)
        missing = [
            (n, draft)
            for n in mine
            if keyed_message_id(a.tenant, "Hammer", str(n)) not in sent
            for draft in [self._draft(n)]
        ]
        while missing:
            size = self.chance.choice((1, a.batch, a.batch))
            yield missing[:size]
            del missing[:size]

    def _draft(self, number: int) -> Draft:
        a = self.assignment
        key = f"k{number % a.processes}-{number // a.processes % KEYS_A_PROCESS}"
        body = json.dumps({"number": number, "poison": number % POISON == POISON - 1}).encode()
        return Draft(body, idempotency_key=str(number), key=key if a.ordering is Ordering.PER_KEY else "")

    def _send(self, numbered: Sequence[tuple[int, Draft]]) -> None:
        drafts = [draft for _, draft in numbered]
        receipts: list[Receipt | MillraceError] = (
            [enqueue(self.queue, drafts[0])] if len(drafts) == 1 else enqueue_all(self.queue, drafts)
        )
        now = self.queue.now()
        self.journal.write(
            HistoryRecord(
                now, HistoryEvent.ACCEPTED, receipt.message_id, 0, self.assignment.owner, "Hammer", draft.key, number
            )
            for (number, draft), receipt in zip(numbered, receipts, strict=True)
            if isinstance(receipt, Receipt)
        )
        for receipt in receipts:
            if isinstance(receipt, MillraceError):
                raise receipt

    # -- working --
    def _work(self) -> int:
        a = self.assignment
        held = claim(self.queue, owner=a.owner, limit=self.chance.choice((1, a.batch)), lease_ms=a.lease_ms).claims
        if a.ordering.ordered:
            self._run_in_order(held)
        else:
            self._run_together(held)
        return len(held)

    def _run_in_order(self, held: list[Claim]) -> None:
        """Each ends before the next begins; where one does not, those behind it go back."""
        for position, one in enumerate(held):
            runnable = self._start([one])
            if not runnable or not self._finish(runnable):
                self._release(held[position + 1 :])
                return

    def _run_together(self, held: list[Claim]) -> None:
        runnable = self._start(held)
        if runnable and self.chance.randrange(EXTENDS) == 0:
            extend(self.queue, [one.entry for one in runnable], self.assignment.lease_ms)
        self._finish(runnable)

    def _start(self, held: list[Claim]) -> list[Claim]:
        """Those whose claim is live by this clock begin to run; the rest goes back."""
        now = self.queue.now()
        runnable = [one for one in held if one.may_start(now, margin_ms=50)]
        self.journal.write(self._record(one, HistoryEvent.STARTED, now) for one in runnable)
        self._release([one for one in held if one not in runnable])
        return runnable

    def _finish(self, runnable: list[Claim]) -> bool:
        """Whether all of them ended."""
        if self.chance.randrange(SLOW) == 0:
            time.sleep(SLOW_S)
        good, ended = [], True
        for one in runnable:
            if json.loads(_body(one))["poison"]:
                ended &= self._reject(one)
            elif self.chance.randrange(FAILS) == 0:
                self._fail(one)
                ended = False
            else:
                good.append(one)
        return self._ack(good) and ended

    def _ack(self, good: list[Claim]) -> bool:
        if not good:
            return True
        self._note(good, HistoryEvent.ENDING)
        answers = ack(self.queue, [one.entry for one in good], [b"ok"] * len(good))
        self._note([one for one, answer in zip(good, answers, strict=True) if answer is None], HistoryEvent.DONE)
        self._note(
            [one for one, answer in zip(good, answers, strict=True) if isinstance(answer, StaleClaim)],
            HistoryEvent.STALE,
        )
        return not any(answers)

    def _reject(self, one: Claim) -> bool:
        self._note([one], HistoryEvent.ENDING)
        try:
            reject(self.queue, one.entry, one.message, RunFailure("Poison", "not for us"), one.lost)
        except StaleClaim:
            self._note([one], HistoryEvent.STALE)
            return False
        self._note([one], HistoryEvent.DEAD)
        return True

    def _fail(self, one: Claim) -> None:
        try:
            nack(self.queue, one.entry, one.message, RunFailure("Flaky", "not this time"), lost=one.lost)
        except StaleClaim:
            self._note([one], HistoryEvent.STALE)
        else:
            self._note([one], HistoryEvent.FAILED)

    def _release(self, held: list[Claim]) -> None:
        answers = release(self.queue, [one.entry for one in held]) if held else []
        self._note([one for one, answer in zip(held, answers, strict=True) if answer is None], HistoryEvent.RELEASED)

    def _note(self, held: list[Claim], event: HistoryEvent) -> None:
        now = self.queue.now()
        self.journal.write(self._record(one, event, now) for one in held)

    def _record(self, one: Claim, event: HistoryEvent, at: int) -> HistoryRecord:
        entry = one.entry
        return HistoryRecord(at, event, entry.id, entry.version, self.assignment.owner, "Hammer", entry.key)


def _body(one: Claim) -> bytes:
    assert not one.message.body.packing, "the bodies here are short"
    return one.message.body.data
