"""Bury a message: one transaction takes the entry out, keeps the dead letter and writes where it is."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.engine.attempt_history import history_with, storable
from millrace.engine.counters import book_endings, note_dead
from millrace.engine.queue import Queue
from millrace.history.log import HistoryEvent
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Attempt, DeadLetter, DeadLetterReason, Entry, Message, MessageLocation
from millrace.stores.interface import Applied, Unknown

#: Of the last error a dead letter keeps this much.
ERROR_CHARACTERS = 4_000


def bury(
    queue: Queue,
    entry: Entry,
    message: Message,
    reason: DeadLetterReason,
    *,
    error_type: str,
    error: str,
    attempts: Sequence[Attempt] = (),
) -> bool:
    """Make a dead letter of a claimed message; False when the claim is stale.

    `attempts` are runs not yet in its history.
    """
    now = queue.now()
    history = history_with(queue, entry, attempts)
    dead_letter = DeadLetter(
        message,
        failed_at=now,
        reason=reason,
        error=storable(error[:ERROR_CHARACTERS]),
        error_type=storable(error_type[:ERROR_CHARACTERS]),
        attempts=entry.attempts,
        deliveries=entry.deliveries,
        priority=entry.priority,
        key=entry.key,
        project=entry.project,
        labels=entry.labels,
        history=history,
        ttl=now // 1000 + queue.spec.retention.dead_letter_seconds,
    )
    ttl = queue.spec.location_ttl(now)
    location = MessageLocation(entry.id, entry.nonce, None, ttl, dead_letter=dead_letter.sk, history=history)
    epoch = queue.state().epoch
    queue.record(HistoryEvent.ENDING, [entry])
    outcome = queue.store.bury_entry(entry, location, dead_letter)
    if isinstance(outcome, Unknown):
        raise StoreUnavailable("The dead letter got no answer; the claim will run out and it is tried again.")
    if not isinstance(outcome, Applied):
        queue.record(HistoryEvent.STALE, [entry])
        return False
    queue.record(HistoryEvent.DEAD, [entry])
    note_dead(queue, now)
    book_endings(queue, epoch, 1)
    return True
