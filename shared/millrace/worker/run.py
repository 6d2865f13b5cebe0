"""A claimed message in a worker's hands, how far it has come, and with which others it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from threading import Event

from millrace.engine.claim import Claim
from millrace.engine.finish import Ended
from millrace.model.message import Entry
from millrace.model.transaction import AppWrite


class Stage(Enum):
    """How far a run has come; changed only under the pipeline's lock."""

    BUFFERED = 1
    RUNNING = 2
    FINISHING = 3  #: its ending is being written
    GONE = 4


@dataclass(slots=True, eq=False)
class BatchCall:
    """Runs that one thread does together."""

    runs: list[Run]
    stuck: bool = False  #: none of them counts any more, and the handler has not come back


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
    deferred: bool = False  #: its body waits for those of others to be over
    writes: list[AppWrite] = field(default_factory=list)  #: the handler's own, made together with the ack
    ended: Ended | None = None  #: done and out of the queue; what follows is still to be written
    cancelled: Event = field(default_factory=Event)
    buffered_at: int = 0
    alone: bool = False  #: no other message may be run together with this one
    call: BatchCall | None = None  #: with which others it runs

    def live(self, now: int, margin_ms: int = 0) -> bool:
        """The claim holds by the worker's own clock."""
        return self.entry.until - margin_ms > now
