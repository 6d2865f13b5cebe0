"""What a bulk row is on its way: read from a source, shaped into a draft, written, reported.

    input row ──shape──► Shaped row ──write──► Outcome row          one for each, whatever happens

Rows travel between Spark's stages as Arrow batches. Their columns are written here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import pyarrow as pa

from millrace.engine.drafts import Checked
from millrace.model.message import Draft

#: `source` of every message that a bulk run wrote.
SOURCE = "bulk"


class RowOutcome(StrEnum):
    """How a row of the input ended. The six add up to the input."""

    INSERTED = "inserted"  #: it is in the queue by this run
    DUPLICATE = "duplicate"  #: a message of its key was there already, or an earlier row had the same key and body
    CONFLICT = "conflict"  #: a message of its key is there with another body
    FILTERED = "filtered"  #: the queue's filter leaves it out; its message has the status `filtered`
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
    filtered: bool = False  #: the queue's filter leaves it out: recorded, never queued
    copies: tuple[Copy, ...] = ()
    #: Its draft as this very task checked it: good for one try. None where another task shaped the row.
    checked: Checked | None = field(default=None, repr=False, compare=False)


_ARROW = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()), "map<string,string>": pa.map_(pa.string(), pa.string()),
}  # fmt: skip


class Columns:
    """The columns of one kind of row, each with Spark's word for its type: Spark's DDL and Arrow's schema are these."""

    def __init__(self, **kinds: str) -> None:
        self.kinds = kinds
        self.names = tuple(kinds)
        self.ddl = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        self.schema = pa.schema([(name, _ARROW[kind]) for name, kind in kinds.items()])

    def batch(self, columns: Iterable[Sequence[Any]]) -> pa.RecordBatch:
        """Values, a sequence for each column, as Arrow."""
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


POSITION = {"path": "string", "block": "long", "offset": "long"}
#: What a row of a source may say of its message: as text, whatever the source, except for the body's bytes.
MESSAGE_FIELDS = (
    "body", "idempotency_key", "key", "priority", "not_before", "project", "labels", "tenant", "correlation_id",
    "content_type",
)  # fmt: skip
#: A row as its source gives it; `problem` where it could not be read, `raw` where it is not the body as it stands.
READ = Columns(
    **POSITION, raw="binary", problem="string", **dict.fromkeys(MESSAGE_FIELDS, "string") | {"body": "binary"}
)
#: Beside those: what rows of one message have in common.
NAME = "name"
_OF_ROW = Columns(
    tenant="string", id="string", system_key="string", dead_letter="string", reason="string", raw="binary",
    filtered="boolean",
)  # fmt: skip
_OF_DRAFT = Columns(
    body="binary", content_type="string", headers="map<string,string>", idempotency_key="string", key="string",
    priority="int", not_before="long", project="string", labels="array<string>", correlation_id="string",
    source="string", origin="string",
)  # fmt: skip
#: A shaped row: its place, its own fields, its draft's. Null stands for a field's default.
SHAPED = Columns(**POSITION, **_OF_ROW.kinds, **_OF_DRAFT.kinds)
COPY = Columns(**POSITION, body="binary")
COPIES = pa.list_(pa.struct(list(COPY.schema)))
REPORTED = Columns(
    **POSITION, tenant="string", message_id="string", idempotency_key="string", outcome="string", reason="string",
    raw="binary",
)  # fmt: skip


def _defaults(kind: type, columns: Columns) -> list[Any]:
    of_class = {field.name: field for field in fields(kind)}
    found = (of_class[name] for name in columns.names)
    return [{} if field.default_factory is dict else field.default for field in found]


_ROW_DEFAULTS, _DRAFT_DEFAULTS = _defaults(Row, _OF_ROW), _defaults(Draft, _OF_DRAFT)


def pack(rows: list[Row]) -> pa.RecordBatch:
    """Shaped rows as Arrow."""
    drafts = [row.draft for row in rows]
    columns = [[getattr(row.position, name) for row in rows] for name in POSITION]
    columns += [_packed(rows, *column) for column in zip(_OF_ROW.names, _ROW_DEFAULTS, strict=True)]
    columns += [_packed(drafts, *column) for column in zip(_OF_DRAFT.names, _DRAFT_DEFAULTS, strict=True)]
    return SHAPED.batch(columns)


def _packed(holders: Sequence[Row | Draft], name: str, default: Any) -> list[Any]:
    values = [None if (value := getattr(holder, name)) == default else value for holder in holders]
    return [None if value is None else list(value.items()) for value in values] if name == "headers" else values


def unpack(batch: pa.RecordBatch, run: str) -> list[Row]:
    """Shaped rows back from Arrow, with their copies, marked with the run that writes them."""
    places = zip(*(batch.column(name).to_pylist() for name in POSITION), strict=True)
    of_rows = _unpacked(batch, _OF_ROW, _ROW_DEFAULTS)
    of_drafts = _unpacked(batch, _OF_DRAFT, _DRAFT_DEFAULTS)
    copies = batch.column("copies").to_pylist()
    return [
        # A system key names the run: it is never used again.
        Row(
            Position(*place),
            draft=Draft(**of_draft, run=run, once=bool(of_row["system_key"])),
            copies=tuple(map(_copy, later)),
            **of_row,
        )
        for place, of_row, of_draft, later in zip(places, of_rows, of_drafts, copies, strict=True)
    ]


def _unpacked(batch: pa.RecordBatch, columns: Columns, defaults: list[Any]) -> Iterator[dict[str, Any]]:
    """The fields of each row's part, by name."""
    found: list[list[Any]] = []
    for name, default in zip(columns.names, defaults, strict=True):
        values = batch.column(name).to_pylist()
        convert = {"headers": dict, "labels": tuple}.get(name)
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        found.append([default if value is None else value for value in values])
    return (dict(zip(columns.names, values, strict=True)) for values in zip(*found, strict=True))


def _copy(given: dict[str, Any]) -> Copy:
    return Copy(Position(*(given[name] for name in POSITION)), given["body"])


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
    def size(self) -> int:
        """Bytes of the row, more or less: how far a run is in its source."""
        return len(self.copy.body) if self.copy else len(self.row.draft.body) or len(self.row.raw)

    @property
    def raw(self) -> bytes | None:
        """What was read, for those who mend it: of a rejected row only."""
        if self.outcome is not RowOutcome.REJECTED:
            return None
        return self.copy.body if self.copy else self.row.raw or self.row.draft.body

    def values(self) -> tuple[Any, ...]:
        """In the order of REPORTED."""
        row, place = self.row, self.position
        id_ = None if self.outcome is RowOutcome.REJECTED else row.id
        named = (row.tenant, id_, row.draft.idempotency_key)
        return place.path, place.block, place.offset, *named, self.outcome.value, self.reason or None, self.raw


def report(lines: list[Reported]) -> pa.RecordBatch:
    """Outcomes as Arrow."""
    return REPORTED.batch(list(zip(*(line.values() for line in lines), strict=True)) or [[]] * len(REPORTED.names))
