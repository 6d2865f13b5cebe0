"""A message's life as a list of moments, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millrace.engine.status import MessageStatus, MessageView
from millrace.http.fields import rfc3339
from millrace.http.schemas import number, record, text, time, words
from millrace.model.message import Attempt, DeadLetter, Entry

MOMENT = record(
    "Moment",
    {
        "at": time(null=True),
        "what": words(
            "MomentKind", ("received", "claimed", "failed", "scheduled", "done", "dead", "purged", "replayed")
        ),
        "who": text("The sender or the worker; empty where unknown."),
        "attempt": number(null=True),
        "error_type": text(),
        "error": text(),
        "message_id": text("The message that it was replayed as.", null=True),
    },
)


def timeline(found: MessageView, dead_letter: DeadLetter | None) -> list[dict[str, Any]]:
    """What is known to have happened: received, claimed, failed, …, and where it stands."""
    history = dead_letter.history if dead_letter else found.history
    return [
        _moment(found.message.received_at, "received", who=found.message.source),
        *_attempts(history),
        *_now(found.entry, found.status),
        *_end(found, dead_letter),
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


def _now(entry: Entry | None, status: MessageStatus) -> Iterator[dict[str, Any]]:
    if entry is not None and status is MessageStatus.IN_FLIGHT:
        yield _moment(entry.since, "claimed", who=entry.owner, attempt=entry.attempts + 1)
    elif entry is not None and status is MessageStatus.SCHEDULED:
        yield _moment(entry.due, "scheduled", attempt=entry.attempts + 1)


def _end(found: MessageView, dead_letter: DeadLetter | None) -> Iterator[dict[str, Any]]:
    match found.status:
        case MessageStatus.DONE:
            yield _moment(found.result.finished_at if found.result else 0, "done")
        case MessageStatus.PURGED:
            yield _moment(0, "purged")
        case MessageStatus.DEAD if dead_letter is not None:
            yield _moment(dead_letter.failed_at, "dead", error_type=dead_letter.reason.value, error=dead_letter.error)
            if dead_letter.replayed_at:
                yield _moment(dead_letter.replayed_at, "replayed", message_id=dead_letter.replayed_as)
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
