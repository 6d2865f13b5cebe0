"""Rows of a source into drafts: checked by the same code that checks a producer's post, one definition of truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa

from millrace.admission.admit import admit, count_missing_keys
from millrace.admission.columns import typed_columns
from millrace.definitions import QueueDefinition, load
from millrace.engine.drafts import check, priority_number
from millrace.engine.filtered import filtered_id
from millrace.engine.queue import Runtime
from millrace.model.errors import InvalidField, InvalidMessage, InvalidRequest, TooManyValues
from millrace.model.message import Draft
from millrace.model.strict_json import parse
from millrace.spark.rows import SOURCE, Position, Row, pack
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Shape:
    """How rows become drafts: everything an executor needs to know, small enough to travel with each task."""

    definitions: bytes  #: the compiled definitions
    queue: str
    tenant: str  #: of rows that name none
    bytes_between_rows: int | None = None  #: JSON lines: one newline; None where offsets count rows
    bodies_are_columns: bool = False  #: CSV and Parquet: a body's fields are brought to the declared types


def shape_batches(shape: Shape, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every row of every batch, shaped or rejected; blank lines of a text are no rows."""
    shaper = _Shaper(shape)
    for batch in batches:
        rows = [row for given in batch.to_pylist() if (row := shaper.row(given)) is not None]
        if rows:
            yield pack(rows)
    if shaper.keyless:
        count_missing_keys(shape.queue, shaper.keyless)


class _Shaper:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._definition: QueueDefinition = load(shape.definitions).queue(shape.queue)
        # Checking needs a queue's clock and limits, never its table.
        self._runtime = Runtime(MemoryStore(), MemoryBlobs())
        self._part = ("", -1)
        self.keyless = 0  #: rows for which the queue's key has no value
        self._offset = 0

    def row(self, given: Mapping[str, Any]) -> Row | None:
        """One row. Its offset follows from those before it, so rows must come in the order of their file."""
        position = self._position(given)
        raw: bytes = given["raw"] or b""
        if self._shape.bytes_between_rows is not None and not raw.strip():
            return None
        tenant = given["tenant"] or self._shape.tenant
        if given["problem"]:
            return rejected(position, tenant, given["problem"], raw)
        try:
            return self._admitted(position, tenant, _draft(given))
        except InvalidRequest as error:
            return rejected(position, tenant, f"{error.code}: {error}", raw)

    def _admitted(self, position: Position, tenant: str, draft: Draft) -> Row:
        message_type = self._definition.message_type
        if message_type is None and draft.content_type == JSON:
            _demand_json(draft.body)
        if message_type is not None and self._shape.bodies_are_columns:
            draft = replace(draft, body=typed_columns(message_type, draft.body))
        queue = self._runtime.queue(tenant, self._definition.spec)
        now = queue.now()
        admitted = admit(self._definition, draft, now, fallback_key=content_key(draft.body))
        checked = check(queue, admitted.draft, now)
        self.keyless += admitted.key_missing
        id_ = filtered_id(queue, checked) if admitted.filtered else checked.id
        return Row(position, tenant, id_, admitted.draft, filtered=admitted.filtered)

    def _position(self, given: Mapping[str, Any]) -> Position:
        path, block = given["path"] or "", given["block"] or 0
        if (path, block) != self._part:
            self._part, self._offset = (path, block), 0
        offset = self._offset if given["offset"] is None else int(given["offset"])
        between = self._shape.bytes_between_rows
        self._offset += 1 if between is None else len(given["raw"] or b"") + between
        return Position(path, block, offset)


def rejected(position: Position, tenant: str, reason: str, raw: bytes) -> Row:
    """A row that is not for the queue, spread by its place so that a million of them do not meet in one task."""
    name = sha256(f"{position.path}\n{position.block}\n{position.offset}".encode()).hexdigest()[:32]
    return Row(position, tenant, name, Draft(b"", idempotency_key=None), reason=reason, raw=raw)


def content_key(body: bytes) -> str:
    """The idempotency key of a row that has none: equal bodies are one message, so a second run is safe."""
    return f"content:{sha256(body).hexdigest()}"


def _draft(given: Mapping[str, Any]) -> Draft:
    if given["body"] is None:
        raise InvalidField("body", "is missing", "a value where the body's column or expression points")
    return Draft(
        given["body"],
        content_type=given["content_type"] or JSON,
        idempotency_key=given["idempotency_key"] or None,
        key=given["key"] or "",
        priority=_priority(given["priority"]),
        not_before=_moment(given["not_before"]),
        project=given["project"],
        labels=_labels(given["labels"]),
        correlation_id=given["correlation_id"],
        source=SOURCE,
    )


def _priority(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    return priority_number(int(text) if text.isdecimal() and len(text) < 10 else text)


def _moment(text: str | None) -> int | None:
    """Milliseconds, or a time as RFC 3339 writes it."""
    if text is None or text == "":
        return None
    if text.isdecimal() and len(text) < 17:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidField("not_before", f"{text[:40]!r} is no time", "milliseconds, or RFC 3339 with its offset")
    return round(moment.timestamp() * 1000)


def _labels(text: str | None) -> tuple[str, ...] | None:
    """A JSON list, or words separated by commas."""
    if text is None:
        return None
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
