"""What befell a message: its failed runs, short enough to be kept for one write unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from millrace.message import Attempt, Entry
from millrace.queue import Queue

#: Bytes that the runs of one message may take where it is kept between retries.
HISTORY_BYTES = 640
ERROR_CHARACTERS = 160
ERROR_TYPE_CHARACTERS = 60


def shortened(attempt: Attempt) -> Attempt:
    return replace(
        attempt,
        error_type=attempt.error_type[:ERROR_TYPE_CHARACTERS],
        error=attempt.error if len(attempt.error) <= ERROR_CHARACTERS else attempt.error[: ERROR_CHARACTERS - 1] + "…",
    )


def history_with(queue: Queue, entry: Entry, attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """The runs kept so far and these: one read when there were any before."""
    kept: tuple[Attempt, ...] = ()
    if entry.attempts:
        whereabouts = queue.store.get_whereabouts(entry.id)
        if whereabouts and whereabouts.nonce == entry.nonce:
            kept = whereabouts.history
    return fitting((*kept, *(shortened(attempt) for attempt in attempts)))


def fitting(history: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The first run and as many of the last ones as fit."""
    room = HISTORY_BYTES - _size(history[0]) if history else 0
    last: list[Attempt] = []
    for attempt in reversed(history[1:]):
        room -= _size(attempt)
        if room < 0:
            break
        last.insert(0, attempt)
    return history[:1] + tuple(last)


def _size(attempt: Attempt) -> int:
    return 40 + len(attempt.owner.encode()) + len(attempt.error_type.encode()) + len(attempt.error.encode())
