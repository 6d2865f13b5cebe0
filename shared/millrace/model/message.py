"""The nouns of the queue: what a sender hands in, what is stored, what a worker holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple

from millrace.model.fingerprints import fingerprint
from millrace.model.values import dataclass

#: Stands in a message item in place of a sort key: it was erased, and this is what remains of it.
ERASED = "E#"


#: `finished_at` of the seal on an erased message's result: later than any, so that a late result does not replace it.
SEALED = 9_999_999_999_999


class Place(NamedTuple):
    """Where an entry lies: its keys in the queue table."""

    pk: str
    sk: str


class DeadLetterReason(StrEnum):
    """Why a message became a dead letter."""

    EXHAUSTED = "exhausted"  #: its attempts are used up
    EXPIRED = "expired"  #: older than the queue's retention
    REJECTED = "rejected"  #: its handler said that no retry can help
    BODY_LOST = "body_lost"  #: its body cannot be read by anybody any more


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body that lies in the bucket already, exactly as received."""

    place: str  #: object key
    size: int
    sha256: bytes  #: or its first half, of a body that was read before

    @property
    def digest(self) -> bytes:
        return self.sha256[:16]


@dataclass(frozen=True, slots=True)
class Draft:
    """What a sender hands in. Nothing of it is stored before it was checked."""

    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    key: str = ""  #: orders (per_key) or takes turns (fair) within the queue
    priority: int | str | None = None
    not_before: int | None = None  #: ms; the message waits until then
    project: str | None = None
    labels: tuple[str, ...] | None = None
    correlation_id: str | None = None
    source: str = ""  #: who sent it: a webhook, a client, a run
    origin: str = ""  #: the message that this one was replayed or chained from
    run: str = ""  #: the bulk run that wrote it
    once: bool = False  #: its key is never used again, also past the queue's window
    stored: StoredBody | None = None  #: in place of `body`

    @property
    def size(self) -> int:
        """Bytes of its body."""
        return len(self.body) if self.stored is None else self.stored.size


#: Before the name of the dictionary that a body is packed with.
WITH_DICTIONARY = "zlib:"


@dataclass(frozen=True, slots=True)
class Body:
    """A body as stored: the received bytes, packed when that is smaller, or a pointer to them."""

    data: bytes = b""
    packing: str = ""  #: "" as received, "zlib" compressed, "zlib:NAME" with the queue's dictionary of that name
    blob: str = ""  #: object key, when the packed bytes were too large for the table
    size: int = 0  #: bytes as received
    digest: bytes = b""  #: of the received bytes, for what needs more than the message to be read
    encrypted: bool = False  #: what is stored was encrypted after it was packed

    @property
    def dictionary(self) -> str:
        """The name of the dictionary that it needs; empty where it needs none."""
        return self.packing.removeprefix(WITH_DICTIONARY) if self.packing.startswith(WITH_DICTIONARY) else ""


@dataclass(frozen=True, slots=True)
class Message:
    """What was accepted. Never changes once committed."""

    id: str
    tenant: str
    queue: str
    nonce: str  #: names this acceptance; an entry with another nonce is not its own and never runs
    place: Place  #: where its entry was first put
    body: Body
    content_type: str
    received_at: int
    dedupe_until: int
    ttl: int  #: seconds; a week past retention and window, so that TTL never runs ahead of the queue
    headers: Mapping[str, str] = field(default_factory=dict)
    correlation_id: str = ""
    idempotency_key: str = ""
    source: str = ""
    origin: str = ""
    run: str = ""
    key: str = ""  #: as its entry has it: when that is gone, this tells whose it was
    project: str = ""

    @property
    def erased(self) -> bool:
        """Nothing of what its sender sent is left: `husk` says what is."""
        return self.place.sk == ERASED

    def husk(self, partition: str) -> Message:
        """What remains of it once it is erased: that it was there, so that a repeat or a late commit is refused.

        Of its body no more than where it lies, until it is gone from there. Its run is a name that an operator gave.
        """
        return Message(
            self.id,
            self.tenant,
            self.queue,
            self.nonce,
            Place(partition, ERASED),
            Body(blob=self.body.blob),
            content_type="",
            received_at=self.received_at,
            dedupe_until=self.dedupe_until,
            ttl=self.ttl,
            run=self.run,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A message's place in a queue, with the claim on it. Always below 1 KB: one write unit."""

    place: Place
    id: str
    nonce: str
    enqueued_at: int
    expires_at: int  #: past this it becomes a dead letter
    priority: int
    correlation_id: str
    key: str = ""
    project: str = ""
    labels: tuple[str, ...] = ()
    due: int = 0  #: not to be claimed before this
    attempts: int = 0  #: runs that failed, or whose worker died
    deliveries: int = 0  #: claims, whatever came of them
    version: int = 0  #: of the claim; only grows
    token: str = ""  #: Fencing token; a write with another one must change nothing.
    until: int = 0  #: the claim is live before this
    since: int = 0
    owner: str = ""

    def live(self, now: int) -> bool:
        """Somebody holds it."""
        return self.until > now

    def lost(self, now: int) -> bool:
        """Somebody held it and neither finished nor gave it back in time: a run that counts as failed."""
        return bool(self.token) and self.until <= now

    def claimed(self, token: str, owner: str, now: int, lease_ms: int) -> Entry:
        """The same entry under a new claim. A store writes it only where the version is still the one before."""
        return replace(self, token=token, version=self.version + 1, until=now + lease_ms, since=now, owner=owner)

    def unclaimed(self) -> Entry:
        """The same entry with nobody holding it. The version stays: it only grows."""
        return replace(self, token="", until=0, since=0, owner="")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run that did not succeed, as dead letters and timelines show it."""

    number: int
    version: int
    owner: str
    started_at: int
    ended_at: int
    error_type: str
    error: str


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """Written when an entry moves or its message dies: where it is now, and its failed runs."""

    id: str
    nonce: str
    place: Place | None  #: None once it is out of the queue
    ttl: int
    dead_letter: str = ""  #: sort key of its dead letter
    purged_at: int = 0
    history: tuple[Attempt, ...] = ()
    broken: int = 0  #: version of the newest claim that an operator broke


@dataclass(frozen=True, slots=True)
class Result:
    """What a finished message gave, kept for repeats of its idempotency key."""

    id: str
    nonce: str
    version: int  #: of the claim that finished it
    finished_at: int
    snapshot: bytes
    ttl: int
    encrypted: bool = False  #: its snapshot


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """A message's workflow state: its consumer's own bytes, guarded by the claim."""

    content: bytes
    version: int
    ttl: int = 0
    nonce: str = ""  #: of its message; that of an earlier message of the same idempotency key is not its own
    encrypted: bool = False  #: its content


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that will not run again by itself, complete, with its failed runs."""

    message: Message
    failed_at: int
    reason: DeadLetterReason
    error: str
    error_type: str
    attempts: int
    deliveries: int
    priority: int
    key: str
    project: str
    labels: tuple[str, ...]
    history: tuple[Attempt, ...]
    ttl: int
    replayed_at: int = 0
    replayed_as: str = ""  #: the newest message made from it
    replay_job: str = ""

    @property
    def sk(self) -> str:
        """Its sort key: dead letters of a queue lie in the order in which they failed."""
        return f"{self.failed_at:013d}#{self.message.id}"

    @property
    def fingerprint(self) -> str:
        """The group of its error: dead letters that failed alike have the same."""
        return fingerprint(self.error_type or self.reason.value, self.error)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters to list or replay."""

    failed_from: int = 0
    failed_before: int = 9_999_999_999_999
    reason: DeadLetterReason | None = None
    error_text: str = ""
    project: str | None = None
    correlation_id: str | None = None
    key: str | None = None
    fingerprint: str | None = None
    replayed: bool | None = None  #: None for both those that were replayed and those that were not

    def matches(self, dead_letter: DeadLetter) -> bool:
        right_reason = self.reason is None or dead_letter.reason is self.reason
        right_error = self.error_text.lower() in f"{dead_letter.error_type}: {dead_letter.error}".lower()
        right_project = self.project is None or dead_letter.project == self.project
        right_correlation = self.correlation_id is None or dead_letter.message.correlation_id == self.correlation_id
        right_key = self.key is None or dead_letter.key == self.key
        right_replay = self.replayed is None or bool(dead_letter.replayed_at) is self.replayed
        right_place = right_reason and right_project and right_correlation and right_key and right_replay
        return right_place and right_error and (self.fingerprint is None or dead_letter.fingerprint == self.fingerprint)


EVERY_DEAD_LETTER = DeadLetterFilter()


@dataclass(frozen=True, slots=True)
class Records:
    """All that is stored under a message's id."""

    message: Message | None = None
    location: MessageLocation | None = None
    result: Result | None = None
    workflow_state: WorkflowState | None = None
