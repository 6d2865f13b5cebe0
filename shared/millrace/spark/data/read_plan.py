"""What `spark.read.format("millrace")` reads, by its options: columns, the parts that tasks take, and their rows.

Options: `what` (or the path: `load("dead_letters")`), `queue`, `tenant`, `export` (folders of exports, with commas
between), `json_fields` (`text`, or a JSON object of DDL types by path), `bodies` (`false` leaves them out), `segments`,
`units_per_second` (read units of the whole scan), and the tables as the sink names them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from millrace.admission.admit import typed_message
from millrace.definitions import load
from millrace.definitions.message_type import RecordType
from millrace.model.clock import system_clock
from millrace.model.errors import InvalidField, InvalidMessage
from millrace.spark.connection import TableConnection
from millrace.spark.data.export_files import ExportFile, find_export_files, read_text, task_count
from millrace.spark.data.exports import dictionaries_in
from millrace.spark.data.lives import Life
from millrace.spark.data.message_rows import LIFE, TIMES, Deriving, life_row
from millrace.spark.data.parts import (
    AuditOf,
    ExportShare,
    Failed,
    Ids,
    Part,
    Reading,
    Segment,
    read_audit_events,
    read_dead_lives,
    read_lives,
)
from millrace.spark.data.read import AUDIT, INTERNAL, views_of
from millrace.spark.data.typed_columns import TEXT, type_ddl
from millrace.spark.data.typed_values import column_value
from millrace.spark.run_settings import ENDPOINTS, TABLES

SEGMENTS = 8
_RUN = (
    "number int, version int, owner string, started_at timestamp, ended_at timestamp, error_type string, error string"
)
_ATTEMPT = ("tenant", "queue", "message_id", "key", "status")
_RESULT = (
    "tenant", "queue", "message_id", "idempotency_key", "correlation_id", "received_at", "ended_at", "result",
)  # fmt: skip
_AUDIT_TIMES = ("at", "ended_at")
KINDS = ("messages", "attempts", "results", "dead_letters", "audit_events")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One read, before its tasks begin."""

    what: str
    reading: Reading
    exports: tuple[str, ...] = ()
    ids: tuple[str, ...] | None = None
    failed: tuple[int, int] = (0, 10**13 - 1)  #: when dead letters failed
    segments: int | None = None
    units_per_s: float | None = None
    definitions: bytes | None = None
    json_fields: Mapping[str, str] | None = None
    typed_queue: str | None = None  #: whose type's fields are columns; a filter may name a queue too, and adds none
    schema: StructType | None = None  #: as Spark understood the columns

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ReadPlan:
        """Raises InvalidField for what is missing or unknown."""
        what = options.get("what") or options.get("path") or KINDS[0]
        if what not in KINDS:
            raise InvalidField("what", f"{what!r} is unknown", ", ".join(KINDS))
        exports = tuple(filter(None, (path.strip() for path in (options.get("export") or "").split(","))))
        connection = read_connection(options, needed=not exports)
        views = views_of((), "")
        bodies = options.get("bodies", "true") != "false"
        deriving = Deriving(views, connection, options.get("tenant"), options.get("queue"), bodies)
        units, segments = options.get("units_per_second"), options.get("segments")
        shapes = options.get("json_fields", TEXT)
        return cls(
            what,
            Reading(deriving, int(options.get("now") or system_clock())),
            exports,
            segments=int(segments) if segments else None,
            units_per_s=float(units) if units else None,
            definitions=_definitions(options),
            json_fields=None if shapes == TEXT else json.loads(shapes),
            typed_queue=options.get("queue"),
        )

    # -- columns -----------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, str]:
        """Each column with Spark's word for its type."""
        match self.what:
            case "audit_events":
                return {name: "timestamp" if name in _AUDIT_TIMES else kind for name, kind in AUDIT.kinds.items()}
            case "attempts":
                runs = dict(column.split(" ") for column in _RUN.split(", "))
                return dict.fromkeys(_ATTEMPT, "string") | runs
            case "results":
                return {name: "timestamp" if name in TIMES else "string" for name in _RESULT}
        left_out = {*INTERNAL, "status", "result"} if self.what == "dead_letters" else {*INTERNAL}
        own = {name: _column_type(name, kind) for name, kind in LIFE.items() if name not in left_out}
        return own | {self._typed_name(name): kind for name, kind in self._typed().items()}

    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns().items())

    def _message_type(self) -> RecordType | None:
        if self.definitions is None or self.typed_queue is None or not self.reading.deriving.bodies:
            return None
        return load(self.definitions).queue(self.typed_queue).message_type

    def _typed(self) -> dict[str, str]:
        kind = self._message_type()
        fields = kind.fields if kind else {}
        return {name: type_ddl(field.type, self.json_fields or {}, name) for name, field in fields.items()}

    @staticmethod
    def _typed_name(name: str) -> str:
        return f"body_{name}" if name in LIFE else name

    # -- parts -------------------------------------------------------------------------------------------------------

    def planned(self) -> tuple[ReadPlan, list[Part]]:
        """What tasks read, and the plan that they read it by."""
        if self.exports:
            return self._planned_exports()
        deriving, connection = self.reading.deriving, self.reading.connection
        if self.ids is not None and self.what not in ("dead_letters", "audit_events"):
            return self, [Ids(self.ids[start::SEGMENTS]) for start in range(min(SEGMENTS, len(self.ids)))]
        if self.what == "dead_letters" and deriving.tenant is not None and deriving.queue is not None:
            return self, [Failed(deriving.tenant, deriving.queue, *self.failed)]
        if self.what == "audit_events" and deriving.tenant is not None:
            return self, [AuditOf(deriving.tenant)]
        table = connection.dead_letter_table if self.what == "dead_letters" else connection.queue_table
        count = self.segments or SEGMENTS
        share = None if self.units_per_s is None else self.units_per_s / count
        return self, [Segment(table, number, count, share) for number in range(count)]

    def _planned_exports(self) -> tuple[ReadPlan, list[Part]]:
        connection = self.reading.deriving.connection
        endpoint = connection.s3_endpoint_url if connection else None
        found = find_export_files(self.exports, endpoint)
        queue_table = connection.queue_table if connection else min(export.table for export in found)
        deriving = replace(self.reading.deriving, views=views_of(found, queue_table))
        of_dead = [export.until for export in found if export.full and export.table != queue_table]
        files = tuple(ExportFile(place, export.until, endpoint) for export in found for place in export.files)
        if connection is None and deriving.bodies:
            known = dictionaries_in(line for file in files for line in read_text(file))
            deriving = replace(deriving, dictionaries=known)
        count = self.segments or task_count(found, endpoint)
        parts: list[Part] = [ExportShare(number, count, files, max(of_dead, default=0)) for number in range(count)]
        return replace(self, reading=replace(self.reading, deriving=deriving)), parts

    # -- rows --------------------------------------------------------------------------------------------------------

    def rows(self, part: Part) -> Iterator[tuple[Any, ...]]:
        """A part's rows, in the order of the columns."""
        if self.what == "audit_events":
            for event in read_audit_events(self.reading, part):
                yield tuple(_moment(getattr(event, name)) if name in _AUDIT_TIMES else getattr(event, name)
                            for name in AUDIT.names)  # fmt: skip
            return
        read = read_dead_lives if self.what == "dead_letters" else read_lives
        shown = _SHOWN.get(self.what, self._whole())
        for life in read(self.reading, part):
            yield from shown(life)

    def _whole(self) -> Callable[[Life], Iterable[tuple[Any, ...]]]:
        message_type, typed = self._message_type(), list(self._typed())
        names = [name for name in self.columns() if name in LIFE]
        kinds = [self.schema[self._typed_name(name)].dataType for name in typed] if self.schema else []

        def shown(life: Life) -> Iterable[tuple[Any, ...]]:
            row = _with_moments(life_row(life))
            document = _document(message_type, life) or {}
            fields = [column_value(document.get(name), kind) for name, kind in zip(typed, kinds, strict=True)]
            yield (*(row[name] for name in names), *fields)

        return shown


def read_connection(options: Mapping[str, str], *, needed: bool) -> TableConnection | None:
    """The tables, by the options or the environment; None where they are not needed and not all named."""
    named = all(options.get(name) or os.environ.get(variable) for name, variable in TABLES.items())
    return demand_tables(options) if needed or named else None


def demand_tables(options: Mapping[str, str]) -> TableConnection:
    """The tables, by the options or the environment. Raises InvalidField for one that nobody names."""
    found = {name: options.get(name) or os.environ.get(variable) for name, variable in (TABLES | ENDPOINTS).items()}
    for name, variable in TABLES.items():
        if not found[name]:
            raise InvalidField(name, "is missing", f"the option {name}, or {variable} in the environment")
    return TableConnection(**found)  # type: ignore[arg-type]


def _definitions(options: Mapping[str, str]) -> bytes | None:
    text, path = options.get("definitions_text"), options.get("definitions") or os.environ.get("DEFINITIONS")
    if text:
        return text.encode()
    return Path(path).read_bytes() if path else None


def _column_type(name: str, kind: str) -> str:
    if name == "history":
        return f"array<struct<{_RUN.replace(' ', ': ').replace(',:', ',')}>>"
    return "timestamp" if name in TIMES else kind


def _with_moments(row: dict[str, Any]) -> dict[str, Any]:
    row |= {name: _moment(row[name]) for name in TIMES}
    row["headers"] = dict(row["headers"])
    row["history"] = [_run(run) for run in row["history"]]
    return row


def _run(run: dict[str, Any]) -> dict[str, Any]:
    return run | {name: datetime.fromtimestamp(run[name] / 1000, UTC) for name in ("started_at", "ended_at")}


def _moment(millis: int | None) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, UTC) if millis else None


def _document(message_type: RecordType | None, life: Life) -> dict[str, Any] | None:
    if message_type is None or life.body is None:
        return None
    try:
        return typed_message(message_type, life.message, life.body)
    except (InvalidMessage, ValueError, RecursionError):
        return None


def _attempts(life: Life) -> Iterable[tuple[Any, ...]]:
    row = _with_moments(life_row(life))
    for run in row["history"]:
        yield (*(row[name] for name in _ATTEMPT), *run.values())


def _results(life: Life) -> Iterable[tuple[Any, ...]]:
    row = _with_moments(life_row(life))
    if row["result"] is not None:
        yield tuple(row[name] for name in _RESULT)


_SHOWN: Mapping[str, Callable[[Life], Iterable[tuple[Any, ...]]]] = {"attempts": _attempts, "results": _results}
