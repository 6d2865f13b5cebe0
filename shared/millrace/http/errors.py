"""What the HTTP APIs refuse by themselves, before the queue is asked."""

from __future__ import annotations

from millrace.model.errors import InvalidRequest, MillraceError


class Unauthorised(MillraceError):
    """No token that counts came with the request. Says nothing more: every refusal looks the same."""

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
    """As many consumers wait on the queue as this process holds."""

    code = "too_many_waiting"

    def __init__(self, queue: str, most: int, retry_after: int = 2) -> None:
        self.queue = queue
        self.retry_after = retry_after
        super().__init__(f"{most} consumers wait on queue {queue!r} already: try again in {retry_after} s.")


class InvalidClaim(InvalidRequest):
    """The claim is not one that this queue handed out."""

    code = "invalid_request"

    def __init__(self) -> None:
        super().__init__("claim: not one that this queue handed out. Allowed: the `claim` of a dequeue, unchanged.")
