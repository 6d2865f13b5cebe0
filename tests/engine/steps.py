"""Steps that many tests of the engine take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.engine.claim import Claim, Claimed
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.model.queue_spec import Jitter, RetryPolicy

BROKEN = RunFailure("ValueError", "broken")
EXACT = RetryPolicy(max_attempts=5, initial_backoff_ms=1_000, max_backoff_ms=60_000, jitter=Jitter.NONE)


def raising(error: Exception) -> Callable[..., Any]:
    """A function that fails, whatever it is called with: to stand in for a store's method."""

    def fail(*_: object) -> None:
        raise error

    return fail


def only(claimed: Claimed) -> Claim:
    (held,) = claimed.claims
    return held


def put_one(queue: Queue, body: bytes = b"x") -> str:
    return enqueue(queue, Draft(body)).message_id
