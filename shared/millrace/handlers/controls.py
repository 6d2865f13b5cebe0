"""What a handler may raise to say what becomes of its message. Any other exception is a failed run."""

from __future__ import annotations

from datetime import datetime, timedelta


class Control(Exception):
    """How a handler says what becomes of its message."""


class Retry(Control):
    """Try again: an attempt is charged, and the wait is the handler's own instead of the queue's backoff.

    With no `after` it is an ordinary failure with a reason.
    """

    def __init__(
        self, after: float | timedelta | None = None, reason: str = "The handler asked for another try."
    ) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else _millis(after)


class Unavailable(Retry):
    """What the handler needs is down: a failed run like any other, and its target's circuit breaker counts it."""


class Reject(Control):
    """No retry can help: straight to the dead letters."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Snooze(Control):
    """Not now: the message comes back at a time or after some seconds, and no attempt is charged.

    A message can be snoozed until it grows too old; then it is a dead letter, reason `expired`.
    """

    def __init__(
        self, until: datetime | None = None, *, after: float | timedelta | None = None, reason: str = ""
    ) -> None:
        if (until is None) == (after is None):
            raise TypeError("Snooze takes either a time (until) or a duration (after)")
        if until is not None and until.tzinfo is None:
            raise TypeError("Snooze takes a time with its zone")
        super().__init__(reason or "The handler asked for later.")
        self._until = until
        self._after = after

    def until_ms(self, now: int) -> int:
        """When it comes back; never in the past."""
        if self._until is not None:
            return max(now, int(self._until.timestamp() * 1000))
        return now + _millis(self._after or 0)


class ExecutionTimeout(Exception):
    """A run took longer than it may; whatever it still returns is discarded."""


def _millis(duration: float | timedelta) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return max(0, int(seconds * 1000))
