"""What every kind of target has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from millrace.handlers.batches import BatchSettings, Outcome
from millrace.handlers.context import Context
from millrace.handlers.controls import Snooze
from millrace.worker.context import RunContext

#: How long to wait for a target that says "later" without a time.
DEFAULT_AFTER_S = 5.0
#: A target that names a time is believed up to this.
MAX_AFTER_S = 3_600.0


class Throttled(Snooze):
    """The target has no room now: no attempt is charged, but its breaker counts it."""

    def __init__(self, after_s: float | None, reason: str) -> None:
        wait = DEFAULT_AFTER_S if after_s is None else min(after_s, MAX_AFTER_S)
        super().__init__(after=max(0.0, wait), reason=reason)


class TargetFailed(Exception):
    """A target answered, and what it answered is a failure."""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """What goes to a target: the rendered input, and which of the queue's targets it is."""

    destination: str
    given: Any
    index: int  #: of the target within its queue
    several: bool  #: whether the queue has others
    secrets: tuple[str, ...] | None = None  #: references of what signs it; None: the deployment's


@runtime_checkable
class DeliverBatch(Protocol):
    """A delivery that can take several messages for one destination at once, where the destination says so."""

    def batch_of(self, name: str) -> BatchSettings | None: ...

    def run_batch(self, name: str, given: Sequence[tuple[Any, Context]]) -> list[Outcome]: ...


class Deliver(Protocol):
    """Sends a request to one kind of target.

    Returns its result; raises a control (Retry, Reject, Throttled) or any exception, which is a failed run.
    """

    def __call__(self, context: RunContext, request: TargetRequest) -> Any: ...
