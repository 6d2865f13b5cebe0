"""What a handler gets: the message, its fencing token, attempt and deadline, and its workflow state."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

from millrace.engine.bodies import wait_to_read
from millrace.engine.claim import Claim, body_of
from millrace.engine.queue import Queue
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.handlers.context import Context, RunLogger
from millrace.handlers.controls import Reject, Snooze
from millrace.model.errors import StoreUnavailable
from millrace.model.journal import STEPS, TARGETS, effect_root, hidden, visible
from millrace.model.message import Entry, Message
from millrace.model.queue_spec import MAX_BODY_BYTES
from millrace.model.transaction import Staged

log = logging.getLogger("millrace.worker")


class ClaimState:
    """The message's workflow state as JSON, readable and writable only while the claim is live."""

    def __init__(self, queue: Queue, entry: Entry) -> None:
        self._queue = queue
        self._entry = entry
        self._version: int | None = None
        self._state: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """The state; empty when none was written. Raises StaleClaim. One read and one query."""
        self._load()
        return visible(self._state)

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state. Raises StaleClaim, or StaleState; then nothing was written. Four write units and up."""
        self._load()
        self._store({**state, **hidden(self._state)})

    def targets(self) -> dict[str, Any]:
        """The outcome of each target in earlier runs."""
        return self._hidden(TARGETS)

    def write_targets(self, progress: Mapping[str, Any]) -> None:
        self._load()
        self._store({**self._state, TARGETS: dict(progress)})

    def steps(self) -> dict[str, Any]:
        """What the steps of `once` returned."""
        return self._hidden(STEPS)

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        self._load()
        self._store({**self._state, STEPS: dict(steps)})

    def _hidden(self, name: str) -> dict[str, Any]:
        self._load()
        return dict(self._state.get(name, {}))

    def _load(self) -> None:
        if self._version is None:
            found = read_workflow_state(self._queue, self._entry)
            self._version = found.version
            self._state = json.loads(found.content) if found.content else {}

    def _store(self, state: dict[str, Any]) -> None:
        self._load()
        content = json.dumps(state, separators=(",", ":")).encode()
        self._version = write_workflow_state(self._queue, self._entry, content, self._version or 0).version
        self._state = state


class RunContext(Context):
    """One run in a worker: the message and everything that its handler may need."""

    __slots__ = ("_claim", "_extend", "_queue", "_state", "cancelled", "deadline", "input", "staged", "started_at")

    staged: Staged

    def __init__(
        self,
        queue: Queue,
        claim: Claim,
        cancelled: Event,
        started_at: int,
        deadline: int,
        extend: Callable[[int], int],
    ) -> None:
        self._queue = queue
        self._claim = claim
        self._extend = extend
        self._state: ClaimState | None = None
        self.cancelled = cancelled  #: set when the claim is lost or the time is up: stop, nothing will count
        self.started_at = started_at
        self.deadline = deadline  #: ms; past it the run counts as failed, whatever it still does
        self.staged = Staged()  #: writes that are made with the ack, or not at all
        self.input: Any = None  #: what the target's mapping made of the message; None for a handler of raw messages

    @property
    def queue(self) -> Queue:
        return self._queue

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def message(self) -> Message:
        return self._claim.message

    @property
    def message_id(self) -> str:
        return self._claim.message.id

    @property
    def version(self) -> int:
        """Fencing token: only grows. Whoever stores what this run does can refuse a smaller one."""
        return self._claim.entry.version

    @property
    def attempt(self) -> int:
        """Which run this is, from 1."""
        return self._claim.attempt

    @property
    def correlation_id(self) -> str:
        return self._claim.entry.correlation_id

    @property
    def body(self) -> bytes:
        """The body exactly as received: from the message, or one blob read.

        Raises Reject for one that is larger than a worker's memory is shared by: its queue was changed since. Raises
        Snooze while nobody can tell what it is: S3, its dictionary or its key does not answer.
        """
        size = self._claim.message.body.size
        if size > MAX_BODY_BYTES:
            raise Reject(f"body: {size} bytes. A worker reads at most {MAX_BODY_BYTES}: pull it by the API.")
        try:
            return body_of(self._queue, self._claim)
        except StoreUnavailable as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: StoreUnavailable) -> Snooze:
        """What becomes of a message that cannot be read now: no attempt is charged, and it waits longer each time."""
        return Snooze(after=wait_to_read(self._claim.entry.deliveries) / 1000, reason=str(error))

    def remaining_ms(self) -> int:
        return max(0, self.deadline - self._queue.now())

    def extend(self, seconds: float) -> None:
        self.deadline = self._extend(int(seconds * 1000))

    @property
    def state(self) -> ClaimState:
        """The message's workflow state, kept from run to run."""
        if self._state is None:
            self._state = ClaimState(self._queue, self._claim.entry)
        return self._state

    @property
    def effect_root(self) -> str:
        return effect_root(self.message.id, self.message.received_at, self.message.headers)

    @property
    def fields(self) -> dict[str, Any]:
        """What every log line about this run carries."""
        return {
            "tenant": self._queue.tenant,
            "queue": self._queue.spec.name,
            "message_id": self.message_id,
            "attempt": self.attempt,
            "claim_version": self.version,
            "correlation_id": self.correlation_id,
        }

    @property
    def logger(self) -> RunLogger:
        return RunLogger(log, self.fields)
