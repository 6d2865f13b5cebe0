"""A message's failed runs, short enough to be kept for one write unit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from millrace.engine.queue import Queue
from millrace.model.message import Attempt, Entry

#: Bytes that the runs of one message may take, as JSON, where they are kept between retries.
HISTORY_BYTES = 640
#: Bytes of each text in it: two runs always fit, the first and the last.
ERROR_BYTES, ERROR_TYPE_BYTES, OWNER_BYTES = 140, 60, 64


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
