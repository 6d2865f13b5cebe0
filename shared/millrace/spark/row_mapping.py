"""Rows of a source into drafts: checked by the same code that checks a producer's post, one definition of truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from itertools import groupby, repeat
from operator import attrgetter, itemgetter

import pyarrow as pa

from millrace.admission.admit import admit, count_missing_keys
from millrace.admission.columns import typed_columns
from millrace.definitions import QueueDefinition, load
from millrace.engine.drafts import check, priority_number
from millrace.engine.filtered import filtered_id
from millrace.engine.queue import Queue, Runtime
from millrace.model.errors import InvalidField, InvalidMessage, InvalidRequest, TooManyValues
from millrace.model.message import Draft
from millrace.model.strict_json import parse
from millrace.spark.rows import NAME, READ, SOURCE, Copy, Position, Row, pack
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore

JSON = "application/json"
#: Begins the idempotency key of a row that has none.
CONTENT = "content:"
NO_HEADERS: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Shape:
    """How rows become drafts: everything an executor needs to know, small enough to travel with each task."""

    definitions: bytes  #: the compiled definitions
    queue: str
    tenant: str  #: of rows that name none
    lines: bool = False  #: the source is a text of lines: blank ones are no rows
    bodies_are_columns: bool = False  #: CSV and Parquet: a body's fields are brought to the declared types

    @property
    def definition(self) -> QueueDefinition:
        return load(self.definitions).queue(self.queue)

    @property
    def spark_knows_keys(self) -> bool:
        """Whether a row's idempotency key is its column or the hash of its body as read: nothing that we compute."""
        definition = self.definition
        typed = definition.message_type is not None
        return not typed or not (definition.idempotency_key or self.bodies_are_columns)


def shape_batches(shape: Shape, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every row of every batch, shaped or rejected; blank lines of a text are no rows."""
    shaper = Shaper(shape)
    for batch in batches:
        if rows := list(shaper.rows(batch)):
            yield pack(rows)
    shaper.close()


def name_batches(shape: Shape, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, each with the idempotency key that it will have: rows of one message have one name."""
    shaper = Shaper(shape)
    for batch in batches:
        given = batch.column("idempotency_key").to_pylist()
        names = given if all(given) else [row and row.draft.idempotency_key for row in shaper.all_rows(batch)]
        found = pa.array([name or NO_NAME for name in names], pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, found], names=[*batch.schema.names, NAME])


def fold_batches(shape: Shape, run: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Shaped rows, one for each message id, with the later ones as its copies.

    The rows of a name must follow each other, in the order in which the first wins.
    """
    shaper = Shaper(shape, run)
    named = (
        (row.tenant, name, row)
        for batch in batches
        for row, name in zip(shaper.all_rows(batch), batch.column(NAME).to_pylist(), strict=True)
        if row is not None
    )
    for _, of_name in groupby(named, key=itemgetter(0, 1)):
        rows = [row for _, _, row in of_name]
        yield from rows if len(rows) == 1 else fold_rows(rows)
    shaper.close()


def fold_rows(rows: list[Row]) -> Iterator[Row]:
    """Rows in any order: one for each id, since what the filter leaves out has another; rejected ones by themselves."""
    yield from (row for row in rows if row.reason)
    of_id = attrgetter("id")
    for _, same in groupby(sorted((row for row in rows if not row.reason), key=of_id), key=of_id):
        first, *later = same
        yield replace(first, copies=tuple(Copy(row.position, row.draft.body) for row in later))


#: The columns of a row as they are read here, each a list; those that a source does not have are null throughout.
_COLUMNS = READ.names
#: Name of the rows that are no messages.
NO_NAME = "-"


class Shaper:
    """Makes drafts of one task's rows, checked: what comes out needs no second check."""

    def __init__(self, shape: Shape, run: str = "") -> None:
        self._shape = shape
        self._run = run
        self._definition: QueueDefinition = shape.definition
        self._keyless = 0  #: rows for which the queue's key has no value
        # Checking needs a queue's clock and limits, never its table.
        runtime = Runtime(MemoryStore(), MemoryBlobs())
        self._queue = cache(lambda tenant: runtime.queue(tenant, self._definition.spec))

    def rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """The rows of a batch, shaped or rejected."""
        return (row for row in self.all_rows(batch) if row is not None)

    def all_rows(self, batch: pa.RecordBatch) -> Iterator[Row | None]:
        """The same, with None for a blank line."""
        held = set(batch.schema.names)
        columns = [
            repeat(None) if name not in held or (column := batch.column(name)).null_count == len(batch)
            else column.to_pylist()
            for name in _COLUMNS
        ]  # fmt: skip
        return map(self._row, *columns, range(len(batch)))

    def close(self) -> None:
        """Say of how many rows the key had no value."""
        if self._keyless:
            count_missing_keys(self._shape.queue, self._keyless)

    def _row(  # one argument for each column, and the number that ends rows of columns which are null throughout
        self, path: str | None, block: int | None, offset: int | None, raw: bytes | None, problem: str | None,
        body: bytes | None, idempotency_key: str | None, key: str | None, priority: str | None,
        not_before: str | None, project: str | None, labels: str | None, tenant: str | None,
        correlation_id: str | None, content_type: str | None, _number: int,
    ) -> Row | None:  # fmt: skip
        read = (body or b"") if raw is None else raw
        if self._shape.lines and not read.strip():
            return None
        position = Position(path or "", block or 0, offset or 0)
        tenant = tenant or self._shape.tenant
        if problem:
            return rejected(position, tenant, problem, read)
        try:
            if body is None:
                raise InvalidField("body", "is missing", "a value where the body's column or expression points")
            draft = Draft(
                body,
                content_type or JSON,
                NO_HEADERS,
                idempotency_key or None,
                key or "",
                _priority(priority) if priority else None,
                _moment(not_before) if not_before else None,
                project,
                _labels(labels) if labels is not None else None,
                correlation_id,
                SOURCE,
                "",
                self._run,
            )
            return self._admitted(position, tenant, draft)
        except InvalidRequest as error:
            return rejected(position, tenant, f"{error.code}: {error}", read)

    def _admitted(self, position: Position, tenant: str, draft: Draft) -> Row:
        message_type = self._definition.message_type
        if message_type is None and draft.content_type == JSON:
            _demand_json(draft.body)
        if message_type is not None and self._shape.bodies_are_columns:
            draft = replace(draft, body=typed_columns(message_type, draft.body))
        queue: Queue = self._queue(tenant)
        now = queue.now()
        fallback = None if draft.idempotency_key else content_key(draft.body)
        admitted = admit(self._definition, draft, now, fallback_key=fallback)
        checked = check(queue, admitted.draft, now)
        self._keyless += admitted.key_missing
        id_ = filtered_id(queue, checked) if admitted.filtered else checked.id
        return Row(position, tenant, id_, admitted.draft, filtered=admitted.filtered, checked=checked)


def rejected(position: Position, tenant: str, reason: str, raw: bytes) -> Row:
    """A row that is not for the queue, spread by its place so that a million of them do not meet in one task."""
    name = sha256(f"{position.path}\n{position.block}\n{position.offset}".encode()).hexdigest()[:32]
    return Row(position, tenant, name, Draft(b"", idempotency_key=None), reason=reason, raw=raw)


def content_key(body: bytes) -> str:
    """The idempotency key of a row that has none: equal bodies are one message, so a second run is safe."""
    return f"{CONTENT}{sha256(body).hexdigest()}"


def _priority(text: str) -> int:
    return priority_number(int(text) if text.isdecimal() and len(text) < 10 else text)


def _moment(text: str) -> int:
    """Milliseconds, or a time as RFC 3339 writes it."""
    if text.isdecimal() and len(text) < 17:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidField("not_before", f"{text[:40]!r} is no time", "milliseconds, or RFC 3339 with its offset")
    return round(moment.timestamp() * 1000)


def _labels(text: str) -> tuple[str, ...]:
    """A JSON list, or words separated by commas."""
    if not text.startswith("["):
        return tuple(word.strip() for word in text.split(",") if word.strip())
    try:
        found = parse(text.encode())
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise InvalidField(
            "labels", f"{text[:40]!r} is no list of words", "a list of texts, or words with commas between"
        )
    return tuple(found)


def _demand_json(body: bytes) -> None:
    try:
        parse(body)
    except TooManyValues:
        raise
    except ValueError as error:
        raise InvalidMessage([("body", "JSON", str(error))]) from None
