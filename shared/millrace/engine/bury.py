"""Bury a message: one transaction takes the entry out, keeps the dead letter and writes where it is.

Its failed runs come along, short enough to be kept for one write unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from millrace.engine.counters import book_endings, note_dead
from millrace.engine.queue import Queue
from millrace.history.log import HistoryEvent
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Attempt, DeadLetter, DeadLetterReason, Entry, Message, MessageLocation
from millrace.stores.interface import Applied, Unknown

#: Of the last error a dead letter keeps this much.
ERROR_CHARACTERS = 4_000
#: Bytes that the runs of one message may take, as JSON, where they are kept between retries.
HISTORY_BYTES = 640
#: Bytes of each text in it: two runs always fit, the first and the last.
ERROR_BYTES, ERROR_TYPE_BYTES, OWNER_BYTES = 140, 60, 64


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


def shortened(attempt: Attempt) -> Attempt:
    return replace(
        attempt,
        owner=_cut(attempt.owner, OWNER_BYTES),
        error_type=_cut(attempt.error_type, ERROR_TYPE_BYTES),
        error=_cut(attempt.error, ERROR_BYTES),
    )


def _cut(text: str, max_bytes: int) -> str:
    """As much of a text as fits so many bytes of JSON: a quote takes two there, a control character six."""
    clean = storable(text[: max_bytes + 1])
    if _json_bytes(clean) <= max_bytes:
        return clean
    room = max_bytes - len("…".encode())
    end = 0
    while (room := room - _json_bytes(clean[end])) >= 0:
        end += 1
    return clean[:end] + "…"


def storable(text: str) -> str:
    """A text that UTF-8 can hold: an error that quotes undecodable bytes must not keep its run from being recorded."""
    return text.encode("utf-8", "replace").decode()


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def history_with(queue: Queue, entry: Entry, attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """The runs kept so far and these: one read when there were any before."""
    kept: tuple[Attempt, ...] = ()
    if entry.attempts:
        location = queue.store.get_location(entry.id)
        if location and location.nonce == entry.nonce:
            kept = location.history
    return fitting((*kept, *(shortened(attempt) for attempt in attempts)))


def fitting(history: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The first run and as many of the last ones as fit."""
    room = HISTORY_BYTES - 1 - _size(history[0]) if history else 0
    last: list[Attempt] = []
    for attempt in reversed(history[1:]):
        room -= _size(attempt)
        if room < 0:
            break
        last.insert(0, attempt)
    return history[:1] + tuple(last)


def _size(attempt: Attempt) -> int:
    """In the list, with the comma behind it."""
    numbers = (attempt.number, attempt.version, attempt.started_at, attempt.ended_at)
    texts = (attempt.owner, attempt.error_type, attempt.error)
    brackets_commas_quotes = 2 + 7 + 6
    return sum(len(str(number)) for number in numbers) + sum(map(_json_bytes, texts)) + brackets_commas_quotes
