"""What a task of a DataFrame's or a stream's write does, and how the tasks' counts become the exact count of all.

A sink gets its rows as they are cut: copies of a message may lie in two tasks, and each finds it written by this very
run. So a task hands over the ids of what it holds inserted; of an id that several hold, one row was inserted and the
others are its duplicates. Whoever's try it was, and however a repeated batch is cut, the sum is the same.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millrace.definitions import load
from millrace.model.errors import InvalidField
from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.spark.bulk_write import WritePlan
from millrace.spark.connection import connect
from millrace.spark.row_mapping import Shaper, fold_rows
from millrace.spark.rows import MESSAGE_FIELDS, READ, Row, RowOutcome
from millrace.spark.writer import Writer

#: Rejected rows that a task hands over in full; the rest are counted.
SHOWN = 100


@dataclass(slots=True)
class TaskCounts:
    """What came of one task's rows: the commit message of a sink's task."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    inserted: set[str] = field(default_factory=set)  #: ids of the messages that this task holds inserted
    reasons: dict[str, int] = field(default_factory=dict)  #: of rejected and failed rows
    rejected: list[dict[str, Any]] = field(default_factory=list)
    units: float = 0.0
    throttled: int = 0


def count_all(tasks: Iterable[TaskCounts]) -> dict[str, int]:
    """The exact count of all tasks' rows, by outcome."""
    total = {outcome.value: 0 for outcome in RowOutcome}
    inserted: set[str] = set()
    for task in tasks:
        for outcome, rows in task.counts.items():
            total[outcome] += rows
        inserted |= task.inserted
    total[RowOutcome.DUPLICATE] += total[RowOutcome.INSERTED] - len(inserted)
    total[RowOutcome.INSERTED] = len(inserted)
    return total


def write_task(plan: WritePlan, fields: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> TaskCounts:
    """Write one task's rows and say what came of them."""
    tables = connect(plan.connection)
    throttle = tables.client.throttle = AdaptiveThrottle(plan.units_per_s)
    spec = load(plan.shape.definitions).queue(plan.shape.queue).spec
    writer = Writer(tables.runtime, spec, plan.writing)
    shaper = Shaper(plan.shape, plan.writing.run)
    found = TaskCounts(plan.writing.run)
    for lines in writer.write(_rows(shaper, fields, batches)):
        for line in lines:
            found.counts[line.outcome] = found.counts.get(line.outcome, 0) + 1
            if line.outcome is RowOutcome.INSERTED:
                found.inserted.add(line.row.id)
            elif line.outcome in (RowOutcome.REJECTED, RowOutcome.FAILED):
                found.reasons[line.reason] = found.reasons.get(line.reason, 0) + 1
            if line.outcome is RowOutcome.REJECTED and len(found.rejected) < SHOWN:
                raw = (line.raw or b"").decode("utf-8", "backslashreplace")
                found.rejected.append({"reason": line.reason, "raw": raw})
    shaper.close()
    found.units, found.throttled = throttle.spending.units, throttle.spending.throttled
    return found


def _rows(shaper: Shaper, fields: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from fold_rows(list(shaper.rows(read_columns(batch, fields))))


def demand_columns(names: Sequence[str], fields: Mapping[str, str]) -> None:
    """Raises InvalidField for a field of no message, and for a column that is not there."""
    for name, column in fields.items():
        if name not in MESSAGE_FIELDS:
            raise InvalidField(name, "is no field of a message", ", ".join(MESSAGE_FIELDS))
        if column not in names:
            raise InvalidField(name, f"{column!r} is no column", ", ".join(names))


def read_columns(batch: pa.RecordBatch, fields: Mapping[str, str]) -> pa.RecordBatch:
    """A batch of any columns as the rows of a source: a field is a column, the body the whole row unless one is it."""
    columns: dict[str, Any] = {}
    for name, column in fields.items():
        given = batch.column(column)
        if name == "body":
            columns[name] = given if pa.types.is_binary(given.type) else [_body(value) for value in given.to_pylist()]
        else:
            columns[name] = [_text(value) for value in given.to_pylist()]
    if "body" not in columns:
        columns["body"] = [_body(row) for row in batch.to_pylist()]
    arrays = [
        pa.array(columns[name], kind.type) if not isinstance(columns[name], pa.Array) else columns[name].cast(kind.type)
        for kind in READ.schema
        if (name := kind.name) in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name in READ.names if name in columns])


def _body(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else _json(value).encode()


def _text(value: Any) -> str | None:
    """As Spark would write it: times in milliseconds, lists and structs as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return str(_millis(value))
    return _json(value) if isinstance(value, dict | list) else str(value)


def _millis(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """What JSON has no word for: times as RFC 3339, bytes as base64, decimals by their digits."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise InvalidField("body", f"a {type(value).__name__} has no JSON", "a column of text for the body")
