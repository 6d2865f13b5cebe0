"""Errors of the client's calls.

CallFailed
├── Unreachable             no answer came; the call may have had its effect
├── BodyDamaged             a download does not hold the bytes that were sent
└── RequestRefused          an answer that is not a success: status, code, detail, correlation id
    ├── BadRequest          400, 413, 422: the call is wrong; repeating it does not help
    ├── AccessDenied        401, 403
    ├── ResourceNotFound    404, 410
    ├── ClaimLost           409 stale_claim: another worker has the message now, or it has ended
    ├── StateConflict       409 stale_state: the workflow state was changed meanwhile
    ├── IdempotencyConflict 409 idempotency_conflict: the key is taken by a message with another body
    ├── ReplayedBefore      409 already_replayed: the dead letter was replayed before
    ├── MessageInUse        409 message_held: a worker holds the message
    └── Busy                429, 503 and other faults of the server: try again later
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class CallFailed(Exception):
    """A call failed."""


class Unreachable(CallFailed):
    """No answer came."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        self.sent = sent  #: the request may have reached the server
        super().__init__(f"No answer: {reason}.")


class BodyDamaged(CallFailed):
    """A download does not hold the bytes that were sent."""


class RequestRefused(CallFailed):
    """The server answered, and not with a success."""

    def __init__(self, status: int, code: str, detail: str, correlation_id: str, members: Mapping[str, Any]) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.correlation_id = correlation_id
        self.members = members
        super().__init__(f"{status} {code}: {detail}" if detail else f"{status} {code}")


class BadRequest(RequestRefused):
    """The call is wrong; repeating it does not help."""


class AccessDenied(RequestRefused):
    """The token is not valid, or lacks a scope or tenant."""


class ResourceNotFound(RequestRefused):
    """No queue, message or dead letter of that name."""


class ClaimLost(RequestRefused):
    """The claim is no longer the newest; nothing was changed."""

    @property
    def current_version(self) -> int | None:
        return self.members.get("current_version")


class StateConflict(RequestRefused):
    """The workflow state was changed meanwhile; nothing was written."""

    @property
    def current_version(self) -> int:
        return int(self.members["current_version"])


class IdempotencyConflict(RequestRefused):
    """The idempotency key belongs to a message with another body; nothing was enqueued."""

    @property
    def message_id(self) -> str:
        """The message that has the key."""
        return str(self.members["message_id"])


class ReplayedBefore(RequestRefused):
    """The dead letter was replayed before; nothing was enqueued."""

    @property
    def message_id(self) -> str:
        """The message that it was replayed as."""
        return str(self.members["message_id"])


class MessageInUse(RequestRefused):
    """A worker holds the message; nothing was changed."""


class Busy(RequestRefused):
    """Not now: try again later."""

    retry_after: float | None = None


_CODES: dict[str, type[RequestRefused]] = {
    "stale_claim": ClaimLost,
    "stale_state": StateConflict,
    "idempotency_conflict": IdempotencyConflict,
    "already_replayed": ReplayedBefore,
    "message_held": MessageInUse,
}
_STATUSES: dict[int, type[RequestRefused]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: ResourceNotFound,
    410: ResourceNotFound,
    429: Busy,
}


def refusal_of(status: int, headers: Mapping[str, str], content: bytes) -> RequestRefused:
    """The error for an answer that is not a success, from the API or from a proxy."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    return refusal_from(status, found if isinstance(found, dict) else {}, headers)


def refusal_from(status: int, problem: Mapping[str, Any], headers: Mapping[str, str]) -> RequestRefused:
    code = str(problem.get("code", "")) or f"http_{status}"
    kind = _CODES.get(code) or _STATUSES.get(status) or (Busy if status >= 500 else BadRequest)
    detail = str(problem.get("detail") or problem.get("title") or problem.get("message") or "")
    correlation_id = str(problem.get("correlation_id") or headers.get("x-correlation-id", ""))
    error = kind(status, code, detail, correlation_id, problem)
    if isinstance(error, Busy) and (after := headers.get("retry-after", "")).isdecimal():
        error.retry_after = float(after)
    return error
