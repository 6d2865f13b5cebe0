"""What came of a run, and the write that records it. Pure decisions first, the fenced write after them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from millrace.engine.finish import RunFailure, nack, reject, snooze
from millrace.engine.queue import Queue
from millrace.worker.controls import Reject, Retry, Snooze
from millrace.worker.run import Run

#: Of a result this much is kept for repeats of its idempotency key; a larger one is done all the same.
SNAPSHOT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Done:
    result: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    error_type: str
    error: str
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    until: int


RunOutcome = Done | Failed | Rejected | Snoozed


def outcome_of(error: Exception, now: int) -> RunOutcome:
    """What an exception of a handler means."""
    match error:
        case Reject():
            return Rejected(error.reason)
        case Snooze():
            return Snoozed(error.until_ms(now))
        case Retry():
            return Failed("Retry", str(error), error.after_ms)
        case _:
            return Failed(type(error).__name__, str(error) or type(error).__name__)


def snapshot(result: Any) -> bytes:
    """A handler's result as bytes. Raises TypeError for what JSON cannot spell."""
    match result:
        case None:
            data = b""
        case bytes():
            data = result
        case _:
            data = json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode()
    return data if len(data) <= SNAPSHOT_BYTES else b""


def record(queue: Queue, run: Run, outcome: Failed | Rejected | Snoozed) -> str:
    """Write how a run ended that is not done; what to count it as. Raises StaleClaim or StoreUnavailable."""
    match outcome:
        case Failed(error_type, error, delay_ms):
            failure = RunFailure(error_type, error)
            again = nack(queue, run.entry, run.claim.message, failure, delay_ms=delay_ms, lost=run.claim.lost)
            return "retried" if again else "dead"
        case Rejected(reason):
            reject(queue, run.entry, run.claim.message, RunFailure("Reject", reason), run.claim.lost)
            return "dead"
        case Snoozed(until):
            snooze(queue, run.entry, until)
            return "snoozed"
