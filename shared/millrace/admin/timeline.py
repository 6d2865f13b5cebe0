"""A message's life as a list of moments, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millrace.engine.status import MessageStatus, Status
from millrace.http.fields import rfc3339
from millrace.model.message import Attempt, DeadLetter, Entry


def timeline(found: Status, letter: DeadLetter | None) -> list[dict[str, Any]]:
    """What is known to have happened: received, claimed, failed, …, and where it stands."""
    history = letter.history if letter else found.history
    return [
        _moment(found.message.received_at, "received", who=found.message.source),
        *_attempts(history),
        *_now(found.entry, found.phase),
        *_end(found, letter),
    ]


def _attempts(history: Sequence[Attempt]) -> Iterator[dict[str, Any]]:
    for attempt in history:
        if attempt.started_at:
            yield _moment(attempt.started_at, "claimed", who=attempt.owner, attempt=attempt.number)
        yield _moment(
            attempt.ended_at,
            "failed",
            who=attempt.owner,
            attempt=attempt.number,
            error_type=attempt.error_type,
            error=attempt.error,
        )


def _now(entry: Entry | None, phase: MessageStatus) -> Iterator[dict[str, Any]]:
    if entry is not None and phase is MessageStatus.CLAIMED:
        yield _moment(entry.since, "claimed", who=entry.owner, attempt=entry.attempts + 1)
    elif entry is not None and phase is MessageStatus.WAITING:
        yield _moment(entry.due, "waiting", attempt=entry.attempts + 1)


def _end(found: Status, letter: DeadLetter | None) -> Iterator[dict[str, Any]]:
    match found.phase:
        case MessageStatus.DONE:
            yield _moment(found.result.finished_at if found.result else 0, "done")
        case MessageStatus.PURGED:
            yield _moment(0, "purged")
        case MessageStatus.DEAD if letter is not None:
            yield _moment(letter.failed_at, "dead", error_type=letter.reason.value, error=letter.error)
            if letter.replayed_at:
                yield _moment(letter.replayed_at, "replayed", message_id=letter.replayed_as)
        case MessageStatus.DEAD:
            yield _moment(0, "dead")


def _moment(
    at: int,
    what: str,
    *,
    who: str = "",
    attempt: int | None = None,
    error_type: str = "",
    error: str = "",
    message_id: str | None = None,
) -> dict[str, Any]:
    return {
        "at": rfc3339(at),
        "what": what,
        "who": who,
        "attempt": attempt,
        "error_type": error_type,
        "error": error,
        "message_id": message_id,
    }
