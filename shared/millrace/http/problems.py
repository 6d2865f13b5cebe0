"""Errors as HTTP answers: RFC 9457 problem documents with a stable `code`; and what the HTTP APIs refuse themselves.

The one table that maps what the core refuses to a status. A fault of ours is 5xx, never 4xx: senders drop a message
on a 4xx and send it again on a 5xx.
"""

from __future__ import annotations

import json
from typing import Any

from millrace.model.errors import (
    AlreadyReplayed,
    BodyTooLarge,
    InvalidField,
    InvalidMessage,
    InvalidRequest,
    KeyReused,
    KeyUnavailable,
    MessageHeld,
    MillraceError,
    QueueFull,
    StaleClaim,
    StaleState,
    StoreUnavailable,
    UnknownQueue,
)
from millrace.model.values import dataclass

CONTENT_TYPE = "application/problem+json"

#: code → (status, title). A code that is not here is a fault of ours.
STATUSES: dict[str, tuple[int, str]] = {
    "invalid_request": (400, "The request is malformed"),
    "invalid_field": (400, "A field is out of range"),
    "invalid_cursor": (400, "The cursor is not valid here"),
    "invalid_message": (422, "The message does not fit its type"),
    "expression_failed": (422, "The message lacks what the definition reads from it"),
    "signature_invalid": (401, "The request could not be authenticated"),
    "unauthorised": (401, "A valid token is needed"),
    "forbidden": (403, "The token does not allow this"),
    "not_found": (404, "There is nothing here"),
    "unknown_queue": (404, "There is no such queue"),
    "unknown_webhook": (404, "There is no such webhook"),
    "method_not_allowed": (405, "The method is not allowed here"),
    "stale_claim": (409, "The claim is stale"),
    "stale_state": (409, "The state was changed meanwhile"),
    "idempotency_conflict": (409, "The idempotency key belongs to another body"),
    "already_replayed": (409, "The dead letter was replayed before"),
    "message_held": (409, "A worker holds the message"),
    "body_lost": (410, "The body is gone"),
    "dictionary_lost": (410, "The dictionary of the body is gone"),
    "key_lost": (410, "The key of the body is gone"),
    "body_too_large": (413, "The body is too large"),
    "upload_missing": (404, "There is no such upload"),
    "upload_refused": (422, "The queue takes no uploads"),
    "too_many_values": (413, "The body holds too many values"),
    "too_many_waiting": (429, "Too many consumers are waiting"),
    "configuration_missing": (500, "The webhook cannot verify requests"),
    "secret_unavailable": (503, "The webhook cannot verify requests"),
    "queue_full": (503, "The queue is full"),
    "store_unavailable": (503, "The store did not answer"),
    "key_unavailable": (503, "The key of the queue cannot be used"),
    "internal": (500, "Something went wrong on our side"),
}
#: The schema of a problem document.
PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "A problem document (RFC 9457). `code` is stable and for programs; `detail` is for people.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(STATUSES), "title": "ProblemCode"},
        "detail": {"type": "string"},
        "correlation_id": {"type": "string"},
        "current_version": {"type": ["integer", "null"], "description": "With `stale_claim` and `stale_state`."},
        "message_id": {
            "type": "string",
            "description": "With `idempotency_conflict`, `already_replayed`, `message_held`.",
        },
        "field": {"type": "string", "description": "With `invalid_field`: the path of the field."},
        "allowed": {"type": "string", "description": "With `invalid_field`: what the field takes."},
        "max_bytes": {"type": "integer", "description": "With `body_too_large`."},
    },
    "required": ["type", "title", "status", "code", "correlation_id"],
    "examples": [
        {
            "type": "urn:millrace:stale_claim",
            "title": "The claim is stale",
            "status": 409,
            "code": "stale_claim",
            "detail": "The claim on this message is stale: version 1, now 2.",
            "current_version": 2,
            "correlation_id": "order-4711",
        }
    ],
}
#: For a store that did not answer: soon, but not at once.
STORE_RETRY_AFTER = 2


class Unauthorised(MillraceError):
    """The request carries no valid token. Says nothing more: every refusal looks the same."""

    code = "unauthorised"

    def __init__(self) -> None:
        super().__init__("A valid token is needed.")


class Forbidden(MillraceError):
    """The token is valid and does not reach this far."""

    code = "forbidden"

    def __init__(self, needed: str) -> None:
        self.needed = needed
        super().__init__(f"The token does not allow this: it needs {needed}.")


class MethodNotAllowed(MillraceError):
    """The path is right, the method is not."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(f"{method[:16]} is not allowed here. Allowed: {', '.join(allowed)}.")


class TooManyWaiting(MillraceError):
    """As many consumers wait as the token, or the deployment, may have."""

    code = "too_many_waiting"

    def __init__(self, queue: str, limit: int, retry_after: int = 2) -> None:
        self.queue = queue
        self.retry_after = retry_after
        super().__init__(f"As many consumers wait as may ({limit} for a token): try again in {retry_after} s.")


class InvalidClaim(InvalidRequest):
    """The claim is not one that this queue handed out."""

    code = "invalid_request"

    def __init__(self) -> None:
        super().__init__("claim: not one that this queue handed out. Allowed: the `claim` of a dequeue, unchanged.")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document and how to send it."""

    status: int
    headers: dict[str, str]
    document: dict[str, Any]

    @property
    def body(self) -> str:
        # ASCII, because a path may repeat what a sender wrote, and half a surrogate pair cannot be sent as UTF-8.
        return json.dumps(self.document)


def problem(error: BaseException, correlation_id: str) -> Problem:
    """The answer for an error. What is not one of our own shows nothing of itself."""
    code = error.code if isinstance(error, MillraceError) else "internal"
    status, title = STATUSES.get(code, STATUSES["internal"])
    document: dict[str, Any] = {"type": f"urn:millrace:{code}", "title": title, "status": status, "code": code}
    if isinstance(error, KeyUnavailable):
        document["detail"] = f"The KMS key {error.key!r} cannot be used now: try again, with the same idempotency key."
    elif isinstance(error, StoreUnavailable):
        # Its own text names tables, buckets and what AWS said: for the log, not for a sender.
        document["detail"] = "Whether the write happened may be unknown: repeat it with the same idempotency key."
    elif isinstance(error, MillraceError) and code in STATUSES:
        document["detail"] = str(error)
    document.update(_particulars(error))
    document["correlation_id"] = correlation_id
    headers = {"Content-Type": CONTENT_TYPE, "X-Correlation-Id": correlation_id}
    retry_after = getattr(error, "retry_after", STORE_RETRY_AFTER if status == 503 else None)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    return Problem(status, headers, document)


def _particulars(error: BaseException) -> dict[str, Any]:
    """What a program may want to read without parsing the detail."""
    match error:
        case StaleClaim():
            return {"current_version": error.current}
        case StaleState():
            return {"current_version": error.current}
        case AlreadyReplayed() | KeyReused() | MessageHeld():
            return {"message_id": error.message_id}
        case InvalidField():
            return {"field": error.field, "allowed": error.allowed}
        case BodyTooLarge():
            return {"max_bytes": error.limit}
        case InvalidMessage():
            return {"problems": [dict(zip(("path", "expected", "found"), p, strict=True)) for p in error.problems]}
        case QueueFull():
            return {"max_depth": error.max_depth}
        case UnknownQueue():
            return {"known": sorted(error.known)}
        case _:
            return {}
