"""Entries, messages and the rest, ready-made: every field set, so that a field lost on the way is noticed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from millrace.model.keys import partition, priority_prefix, waiting_place
from millrace.model.message import (
    Attempt,
    Body,
    DeadLetter,
    DeadLetterReason,
    Entry,
    Message,
    MessageLocation,
    Place,
    Result,
    WorkflowState,
)
from millrace.model.queue_state import QueueState
from millrace.stores.interface import Store
from tests.conftest import NOON

LEASE = 30_000


class Samples:
    """Nouns of one tenant's queue that nothing else in the run shares."""

    def __init__(self, tenant: str, queue: str = "Jobs") -> None:
        self.tenant = tenant
        self.queue = queue
        self.pk = partition(tenant, queue, 0)
        self._numbers = itertools.count(1)

    def entry(self, **changes: object) -> Entry:
        number = next(self._numbers)
        entry = Entry(
            Place(self.pk, f"{priority_prefix(50)}{number:015d}"),
            id=f"{self.tenant}-{number}",
            nonce=f"nonce-{number}",
            enqueued_at=NOON,
            expires_at=NOON + 86_400_000,
            priority=50,
            correlation_id=f"corr-{number}",
            key="customer/7",
            project="billing",
            labels=("blue", "eu:west"),
            due=0,
            attempts=1,
            deliveries=2,
            version=3,
        )
        return replace(entry, **changes)  # type: ignore[arg-type]

    def entries(self, count: int, **changes: object) -> list[Entry]:
        return [self.entry(**changes) for _ in range(count)]

    def message(self, entry: Entry | None = None, **changes: object) -> Message:
        entry = entry or self.entry()
        message = Message(
            id=entry.id,
            tenant=self.tenant,
            queue=self.queue,
            nonce=entry.nonce,
            place=entry.place,
            body=Body(b'{"n": 1}', size=8),
            content_type="application/json",
            received_at=NOON,
            dedupe_until=NOON + 86_400_000,
            ttl=NOON // 1000 + 2 * 604_800,
            headers={"x-event": "push"},
            correlation_id=entry.correlation_id,
            idempotency_key=f"key of {entry.id}",
            source="webhook:GitHub",
            origin="earlier",
            run="run-1",
            key="customer/7",
            project="billing",
        )
        return replace(message, **changes)  # type: ignore[arg-type]

    def messages(self, count: int, **changes: object) -> list[Message]:
        return [self.message(None, **changes) for _ in range(count)]

    def result(self, message_id: str, **changes: object) -> Result:
        result = Result(message_id, "nonce", 4, NOON, b'{"ok": true}', NOON // 1000 + 604_800)
        return replace(result, **changes)  # type: ignore[arg-type]

    def moved(self, entry: Entry, due: int = NOON + 500) -> tuple[Entry, MessageLocation]:
        """The entry as a retry lays it into the waiting lane, and what says so."""
        new = replace(entry.unclaimed(), place=waiting_place(entry.place.pk, due, "0" * 15), due=due, attempts=2)
        return new, MessageLocation(entry.id, entry.nonce, new.place, NOON // 1000 + 99, history=(self.attempt(),))

    def attempt(self, **changes: object) -> Attempt:
        attempt = Attempt(1, 4, "worker-1", NOON - 50, NOON, "ValueError", 'said "no"\nand left')
        return replace(attempt, **changes)  # type: ignore[arg-type]

    def dead_letter(self, message: Message | None = None, **changes: object) -> DeadLetter:
        dead_letter = DeadLetter(
            message or self.message(),
            failed_at=NOON,
            reason=DeadLetterReason.EXHAUSTED,
            error="said no",
            error_type="ValueError",
            attempts=4,
            deliveries=5,
            priority=100,
            key="customer/7",
            project="billing",
            labels=("blue", "eu:west"),
            history=(self.attempt(), self.attempt(number=2, error="")),
            ttl=NOON // 1000 + 1_209_600,
        )
        return replace(dead_letter, **changes)  # type: ignore[arg-type]

    def buried(self, dead_letter: DeadLetter) -> MessageLocation:
        message = dead_letter.message
        return MessageLocation(
            message.id, message.nonce, None, NOON // 1000 + 9, dead_letter.sk, history=dead_letter.history
        )

    def workflow_state(self, version: int = 1, content: bytes = b"step 1") -> WorkflowState:
        return WorkflowState(content, version, NOON // 1000 + 77)


def claimed(entry: Entry, by: str = "mine", *, now: int = NOON, lease: int = LEASE) -> Entry:
    """The entry as its next claim writes it."""
    return replace(
        entry,
        token=f"{by}-{entry.id}",
        version=entry.version + 1,
        deliveries=entry.deliveries + 1,
        until=now + lease,
        since=now,
        owner="worker-1",
    )


def all_claimed(entries: Iterable[Entry], by: str = "mine", *, now: int = NOON, lease: int = LEASE) -> list[Entry]:
    return [claimed(entry, by, now=now, lease=lease) for entry in entries]


def queue_states(store: Store, tenant: str) -> list[QueueState]:
    """The states of a tenant's queues, in the order in which the store lists them."""
    return [state for state in store.list_all_queue_states() if state.tenant == tenant]
