"""What a bulk row is on its way: read from a source, shaped into a draft, written, reported.

    input row ──shape──► Shaped row ──write──► Outcome row          one for each, whatever happens

Rows travel between Spark's stages as Arrow batches; the schemas here are what both sides agree on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from millrace.model.message import Draft

#: `source` of every message that a bulk run wrote.
SOURCE = "bulk"


class RowOutcome(StrEnum):
    """How a row of the input ended. The five add up to the input."""

    INSERTED = "inserted"  #: it is in the queue by this run
    DUPLICATE = "duplicate"  #: a message of its key was there already, or an earlier row had the same key and body
    CONFLICT = "conflict"  #: a message of its key is there with another body
    REJECTED = "rejected"  #: the queue does not take it; nothing was written
    FAILED = "failed"  #: it could not be written in time, or the queue was full; run it again


@dataclass(frozen=True, slots=True)
class Position:
    """Where a row came from."""

    path: str
    block: int  #: where Spark began to read this part of the file
    offset: int  #: bytes (JSON lines) or rows (else) from the block's first row


@dataclass(frozen=True, slots=True)
class Copy:
    """A later row of the same idempotency key."""

    position: Position
    body: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """A row on its way into the queue, or a rejected one with its reason."""

    position: Position
    tenant: str
    id: str  #: of the message it becomes; for a rejected row only a name to spread it by
    draft: Draft
    system_key: str = ""
    dead_letter: str = ""  #: the dead letter that it replays, as its table's export writes it
    reason: str = ""  #: why it is rejected
    raw: bytes = b""  #: of a rejected row: as it was read
    copies: tuple[Copy, ...] = ()


SHAPED = pa.schema(
    [
        ("path", pa.string()),
        ("block", pa.int64()),
        ("offset", pa.int64()),
        ("tenant", pa.string()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        ("body", pa.binary()),
        ("content_type", pa.string()),
        ("idempotency_key", pa.string()),
        ("system_key", pa.string()),
        ("key", pa.string()),
        ("priority", pa.int32()),
        ("not_before", pa.int64()),
        ("project", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("correlation_id", pa.string()),
        ("source", pa.string()),
        ("origin", pa.string()),
        ("dead_letter", pa.string()),
    ]
)
SHAPED_DDL = (
    "path string, block long, offset long, tenant string, id string, reason string, raw binary, body binary, "
    "content_type string, idempotency_key string, system_key string, key string, priority int, not_before long, "
    "project string, labels array<string>, headers map<string,string>, correlation_id string, source string, "
    "origin string, dead_letter string"
)
COPIES = pa.list_(
    pa.struct([("path", pa.string()), ("block", pa.int64()), ("offset", pa.int64()), ("body", pa.binary())])
)
REPORTED = pa.schema(
    [
        ("path", pa.string()),
        ("block", pa.int64()),
        ("offset", pa.int64()),
        ("tenant", pa.string()),
        ("message_id", pa.string()),
        ("idempotency_key", pa.string()),
        ("outcome", pa.string()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
    ]
)
REPORTED_DDL = (
    "path string, block long, offset long, tenant string, message_id string, idempotency_key string, "
    "outcome string, reason string, raw binary"
)


def pack(rows: list[Row]) -> pa.RecordBatch:
    """Shaped rows as Arrow."""
    drafts = [row.draft for row in rows]
    columns: dict[str, list[Any]] = {
        "path": [row.position.path for row in rows],
        "block": [row.position.block for row in rows],
        "offset": [row.position.offset for row in rows],
        "tenant": [row.tenant for row in rows],
        "id": [row.id for row in rows],
        "reason": [row.reason or None for row in rows],
        "raw": [row.raw or None for row in rows],
        "body": [draft.body for draft in drafts],
        "content_type": [draft.content_type for draft in drafts],
        "idempotency_key": [draft.idempotency_key for draft in drafts],
        "system_key": [row.system_key or None for row in rows],
        "key": [draft.key or None for draft in drafts],
        "priority": [draft.priority for draft in drafts],
        "not_before": [draft.not_before for draft in drafts],
        "project": [draft.project for draft in drafts],
        "labels": [None if draft.labels is None else list(draft.labels) for draft in drafts],
        "headers": [list(draft.headers.items()) or None for draft in drafts],
        "correlation_id": [draft.correlation_id for draft in drafts],
        "source": [draft.source or SOURCE for draft in drafts],
        "origin": [draft.origin or None for draft in drafts],
        "dead_letter": [row.dead_letter or None for row in rows],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in SHAPED]
    return pa.RecordBatch.from_arrays(arrays, schema=SHAPED)


def unpack(batch: pa.RecordBatch, run: str) -> list[Row]:
    """Shaped rows back from Arrow, with their copies, marked with the run that writes them."""
    columns = [batch.column(name).to_pylist() for name in (*SHAPED.names, "copies")]
    return [_row(run, *values) for values in zip(*columns, strict=True)]


def _row(
    run: str,
    path: str,
    block: int,
    offset: int,
    tenant: str,
    id_: str,
    reason: str | None,
    raw: bytes | None,
    body: bytes,
    content_type: str,
    idempotency_key: str | None,
    system_key: str | None,
    key: str | None,
    priority: int | None,
    not_before: int | None,
    project: str | None,
    labels: list[str] | None,
    headers: list[tuple[str, str]] | None,
    correlation_id: str | None,
    source: str,
    origin: str | None,
    dead_letter: str | None,
    copies: list[dict[str, Any]],
) -> Row:
    draft = Draft(
        body,
        content_type,
        dict(headers or ()),
        idempotency_key,
        key or "",
        priority,
        not_before,
        project,
        None if labels is None else tuple(labels),
        correlation_id,
        source,
        origin or "",
        run,
    )
    return Row(
        Position(path, block, offset),
        tenant,
        id_,
        draft,
        system_key or "",
        dead_letter or "",
        reason or "",
        raw or b"",
        tuple(Copy(Position(copy["path"], copy["block"], copy["offset"]), copy["body"]) for copy in copies),
    )


@dataclass(frozen=True, slots=True)
class Reported:
    """A row (or a copy of it) and how it ended."""

    row: Row
    outcome: RowOutcome
    reason: str = ""
    copy: Copy | None = None

    @property
    def position(self) -> Position:
        return self.copy.position if self.copy else self.row.position

    @property
    def raw(self) -> bytes | None:
        """What was read, for those who mend it: of a rejected row only."""
        if self.outcome is not RowOutcome.REJECTED:
            return None
        return self.copy.body if self.copy else self.row.raw or self.row.draft.body


def report(lines: list[Reported]) -> pa.RecordBatch:
    """Outcomes as Arrow."""
    columns: dict[str, list[Any]] = {
        "path": [line.position.path for line in lines],
        "block": [line.position.block for line in lines],
        "offset": [line.position.offset for line in lines],
        "tenant": [line.row.tenant for line in lines],
        "message_id": [None if line.outcome is RowOutcome.REJECTED else line.row.id for line in lines],
        "idempotency_key": [line.row.draft.idempotency_key for line in lines],
        "outcome": [line.outcome.value for line in lines],
        "reason": [line.reason or None for line in lines],
        "raw": [line.raw for line in lines],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in REPORTED]
    return pa.RecordBatch.from_arrays(arrays, schema=REPORTED)
