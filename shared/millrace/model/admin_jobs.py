"""Jobs: work over many dead letters or messages that goes on in slices, whoever runs it and however often it dies.

    running ──► done                 every dead letter up to the job's bound was handled
       │  ▲
       │  └──── resume ─────┐
       ├──────► cancelled ──┤        asked for; takes effect after the dead letter in hand
       └──────► failed ─────┘        something that no retry helps

A job sees only what had failed before it was started: what it replays and what then dies again is not replayed by
it a second time. Its position is saved as it goes, under a lease with a fencing token.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol

from millrace.model.clock import DAY
from millrace.model.message import EVERY_DEAD_LETTER, DeadLetterFilter, DeadLetterReason

#: How long an ended job is still listed.
KEEP_SECONDS = 30 * DAY // 1000
MAX_RATE = 1_000.0


class AdminJobKind(StrEnum):
    """What a job does."""

    REPLAY = "replay"  #: enqueue dead letters again, or what was received in a window
    PURGE_DEAD_LETTERS = "purge_dead_letters"  #: forget dead letters for good
    ERASE = "erase"  #: forget all that belongs to somebody, wherever it is
    PURGE_QUEUE = "purge_queue"  #: take every message that nobody holds out of the queue for good


class AdminJobState(StrEnum):
    """Where a job stands."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AdminJob:
    """One job, as stored."""

    id: str
    tenant: str
    queue: str
    kind: AdminJobKind
    created_at: int
    created_by: str  #: id of the token
    created_name: str  #: its name
    ttl: int
    correlation_id: str = ""
    only: DeadLetterFilter = EVERY_DEAD_LETTER
    rate: float = 0.0  #: dead letters a second; 0 for as fast as it goes
    again: bool = False  #: also dead letters that something else has replayed before
    selects: str = ""  #: what an erasure is about, as JSON; once it is done, without naming it. Or a replay's window
    dry_run: bool = False  #: it only counts
    total: int = 0  #: what the count at its start found
    total_exact: bool = True  #: false when there was too much to count
    state: AdminJobState = AdminJobState.RUNNING
    cancel_asked: bool = False
    position: str = ""  #: behind this everything is handled
    in_hand: str = ""  #: ids of messages that are being erased in two steps
    done: int = 0  #: replayed or purged
    skipped: int = 0  #: replayed before by something else, or held by a worker
    failed: int = 0
    failures: str = ""  #: the first few, as lines of `dead letter: error`
    found: str = ""  #: what a replay of a window has met, as JSON
    note: str = ""  #: what it waits for
    updated_at: int = 0
    finished_at: int = 0
    lease_token: str = ""  #: Fencing token; a save under another one must change nothing.
    lease_until: int = 0  #: 0 when it was given back in good order
    lease_version: int = 0

    @property
    def open(self) -> bool:
        return self.state is AdminJobState.RUNNING

    @property
    def bound(self) -> int:
        """Dead letters that failed at this time or later are not the job's."""
        return min(self.only.failed_before, self.created_at)


class AdminJobs(Protocol):
    """Where jobs are kept."""

    def create(self, job: AdminJob) -> AdminJob:
        """Keep a new job; the one that is there already under its id, where there is one."""

    def get(self, tenant: str, queue: str, job_id: str) -> AdminJob | None: ...

    def list_jobs(self, tenant: str, queue: str = "") -> list[AdminJob]:
        """A tenant's jobs, newest first; of one queue where it is named."""

    def list_open(self) -> list[AdminJob]:
        """Every tenant's running jobs."""

    def take(self, job: AdminJob, now: int) -> AdminJob | None:
        """Take the lease that `job` carries, where the stored one is running and its lease is over.

        The job as it stands then, with its lease's version one higher; None when another holds it or it has ended.
        """

    def save(self, job: AdminJob) -> AdminJob | None:
        """Write progress, state and the lease's end where the stored token is the job's; None (no change) otherwise.

        `cancel_asked` is not written but read: the answer carries what was asked for meanwhile.
        """

    def ask_cancel(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        """Ask a running job to stop; the job as it stands; None for an unknown one."""

    def reopen(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        """Let a cancelled or failed job run again from its position; the job as it stands; None for an unknown one."""


def job_id(tenant: str, queue: str, key: str) -> str:
    """The id of the job that a request of this key makes, so that a repeated request makes no second one."""
    parts = "\0".join((tenant, queue, key))
    return sha256(parts.encode()).hexdigest()[:32]


def filter_document(only: DeadLetterFilter) -> dict[str, Any]:
    """A filter as it is stored: what is not asked for is left out."""
    plain = asdict(EVERY_DEAD_LETTER)
    return {name: value for name, value in asdict(only).items() if value != plain[name]}


def read_filter(document: dict[str, Any]) -> DeadLetterFilter:
    reason = document.get("reason")
    return DeadLetterFilter(**{**document, "reason": None if reason is None else DeadLetterReason(reason)})
