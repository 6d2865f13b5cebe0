"""What the client takes and returns: plain frozen values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


def time_of(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def bytes_of(found: Mapping[str, Any], name: str) -> bytes | None:
    """What an answer shows under `name` (JSON) or `name_base64` (exact)."""
    if f"{name}_base64" in found:
        return base64.b64decode(found[f"{name}_base64"])
    return json.dumps(found[name]).encode() if name in found else None


@dataclass(frozen=True, slots=True)
class EnqueueReceipt:
    """An accepted message."""

    message_id: str
    correlation_id: str
    idempotency_key: str
    duplicate: bool  #: the idempotency key was used before: this is that message
    status: str
    result: bytes | None = None  #: of the finished message, for a repeat of its key

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> EnqueueReceipt:
        names = ("message_id", "correlation_id", "idempotency_key", "duplicate", "status")
        return cls(**{name: found[name] for name in names}, result=bytes_of(found, "result"))


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A claimed message."""

    queue: str
    claim: str  #: the handle for ack, nack, release and extend; opaque
    message_id: str
    attempt: int  #: which run this is, from 1
    version: int
    deliveries: int
    owner: str
    content_type: str
    headers: Mapping[str, str]
    size: int
    body: bytes | None  #: exact; None when it has to be fetched
    key: str
    project: str
    labels: tuple[str, ...]
    priority: int
    correlation_id: str
    origin: str
    enqueued_at: datetime
    lease_until: datetime
    lease_ms: int
    state: Any = None
    state_version: int | None = None  #: None unless asked for with `with_state`
    execution_timeout_ms: int = 300_000  #: a run that takes longer has failed
    max_attempts: int = 1  #: so many runs it has in all
    ordering: str = "unordered"  #: of its queue
    input: Any = None  #: what a handler is given, where it was asked for and came along
    input_given: bool = False
    input_omitted: bool = False  #: it is too large for the answer: download it

    @classmethod
    def of(cls, queue: str, found: Mapping[str, Any]) -> ClaimedMessage:
        claimed, until = datetime.fromisoformat(found["claimed_at"]), datetime.fromisoformat(found["lease_until"])
        same = ("claim", "message_id", "attempt", "version", "deliveries", "owner", "content_type", "headers", "size")
        also = ("key", "project", "priority", "correlation_id", "origin")
        return cls(
            queue=queue,
            **{name: found[name] for name in (*same, *also)},
            body=bytes_of(found, "body"),
            labels=tuple(found["labels"]),
            enqueued_at=datetime.fromisoformat(found["enqueued_at"]),
            lease_until=until,
            lease_ms=round((until - claimed).total_seconds() * 1000),
            state=found.get("state"),
            state_version=found.get("state_version"),
            execution_timeout_ms=found["execution_timeout_ms"],
            max_attempts=found["max_attempts"],
            ordering=found["ordering"],
            input=found.get("input"),
            input_given="input" in found,
            input_omitted=found.get("input_omitted", False),
        )


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """A claim that is held for longer."""

    claim: str  #: the handle to use from now on; the one before still works
    until: datetime

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> ExtendedClaim:
        return cls(found["claim"], datetime.fromisoformat(found["lease_until"]))


@dataclass(frozen=True, slots=True)
class Nacked:
    """What becomes of a message whose run failed."""

    outcome: str  #: "retry" or "dead"
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class VersionedState:
    """A workflow state and the version that the next write must name."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be enqueued."""

    body: Any  #: bytes go as they are; anything else as JSON
    idempotency_key: str | None = None
    delay_ms: int | None = None
    not_before: datetime | None = None
    priority: int | str | None = None
    key: str | None = None
    project: str | None = None
    labels: tuple[str, ...] | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """As the API takes them, without the body."""
        given: dict[str, Any] = {
            "idempotency_key": self.idempotency_key,
            "delay_ms": self.delay_ms,
            "not_before": self.not_before.isoformat() if self.not_before else None,
            "priority": self.priority,
            "key": self.key,
            "project": self.project,
            "labels": None if self.labels is None else list(self.labels),
            "correlation_id": self.correlation_id,
            "content_type": self.content_type,
            "headers": dict(self.headers) or None,
        }
        return {name: value for name, value in given.items() if value is not None}
