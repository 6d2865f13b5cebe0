"""One claim in a worker's hands, from the buffer to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from threading import Event

from millrace.engine.claim import Claim
from millrace.model.message import Entry


class Stage(Enum):
    """How far a run has come. Whoever moves it on (under the pipeline's lock) owns its ending."""

    BUFFERED = 1
    RUNNING = 2
    FINISHING = 3  #: its ending is being written
    GONE = 4


@dataclass(slots=True, eq=False)
class Run:
    """A claim, and how far it has come."""

    claim: Claim
    entry: Entry  #: the claim's entry with the newest extension
    start_at: int = 0  #: under a rate limit: not before this
    stage: Stage = Stage.BUFFERED
    started_at: int = 0
    deadline: int = 0
    result: bytes = b""
    cancelled: Event = field(default_factory=Event)

    def live(self, now: int, margin_ms: int = 0) -> bool:
        """The claim holds by the worker's own clock."""
        return self.entry.until - margin_ms > now
