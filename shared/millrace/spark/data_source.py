"""`format("millrace")` to write, to write a stream and to read: Spark 4's Python Data Source API.

    df.write.format("millrace").mode("append").option("queue", "PaymentNotices").option("idempotency_key", "id").save()

Options: `queue`, a column for each field of a message (`idempotency_key`, `key`, `priority`, …; `tenant_of_row` for the
row's tenant), `tenant`, `run`, `definitions` (a path that the driver can open, or `definitions_text`), the tables
(`queue_table`, `dead_letter_table`, `body_bucket`, `region`, `endpoint_url`; else the environment), `units_per_second`
of each task, `on_full`, `rejected` (`fail`, the default, or `report`) and `report`, a folder for the counts.

A write fails, and a stream's batch is repeated, when rows could not be written, or were rejected and nobody said where
to. The run is the query's and the batch's id in a stream, else `run` or a new name. What can be read is in
`source_reader.py` and `data/read_plan.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from millrace.definitions import load
from millrace.model.clock import system_clock, system_entropy
from millrace.model.errors import InvalidField
from millrace.model.ids import Orders
from millrace.spark.bulk_write import WritePlan
from millrace.spark.data.read_plan import ReadPlan, demand_tables
from millrace.spark.frames import BATCH_ID, QUERY_ID
from millrace.spark.row_mapping import Shape
from millrace.spark.rows import MESSAGE_FIELDS, RowOutcome
from millrace.spark.run_settings import demand_run
from millrace.spark.sink import TaskCounts, count_all, demand_columns, write_task
from millrace.spark.source_reader import FilteringReader, QueueReader
from millrace.spark.writer import Writing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

NAME = "millrace"


class RowsNotWritten(Exception):
    """Rows of a write are not in the queue; the write failed, and may be repeated."""


@dataclass(frozen=True, slots=True)
class SinkCommit(WriterCommitMessage):  # type: ignore[misc]
    """What a task hands to the commit: its exact counts."""

    task: TaskCounts


@dataclass(frozen=True, slots=True)
class Sink:
    """A write's settings, as its options give them."""

    plan: WritePlan
    fields: Mapping[str, str]
    rejected_fail: bool
    report: str

    @classmethod
    def from_options(cls, options: Mapping[str, str], columns: list[str]) -> Sink:
        """Raises InvalidField for what is missing, unknown or not for a sink."""
        fields = {
            name: column
            for name in MESSAGE_FIELDS
            if (column := options.get("tenant_of_row" if name == "tenant" else name))
        }
        demand_columns(columns, fields)
        connection = demand_tables(options)
        definitions = _definitions(options)
        queue = options.get("queue") or ""
        if load(definitions).queue(queue).spec.ordering.ordered:
            raise InvalidField("queue", f"{queue!r} is ordered", "an unordered queue, or millrace.spark.enqueue")
        rejected = options.get("rejected", "fail")
        if rejected not in ("fail", "report") or (rejected == "report" and not options.get("report")):
            raise InvalidField("rejected", f"{rejected!r}", "fail, or report together with the option report")
        run = demand_run(options.get("run") or Orders(system_clock, system_entropy).next())
        units = options.get("units_per_second")
        plan = WritePlan(
            connection,
            Shape(definitions, queue, options.get("tenant") or "default", bodies_are_columns="body" not in fields),
            Writing(run, int(options.get("threads", 6)), options.get("on_full") == "stop"),
            float(units) if units else None,
        )
        return cls(plan, fields, rejected == "fail", (options.get("report") or "").rstrip("/"))

    def write(self, batches: Iterator[pa.RecordBatch], run: str | None = None) -> SinkCommit:
        plan = self.plan if run is None else replace(self.plan, writing=replace(self.plan.writing, run=demand_run(run)))
        return SinkCommit(write_task(plan, self.fields, batches))

    def commit(self, messages: list[Any]) -> dict[str, int]:
        """Sum up, keep the figures, and fail where rows would be lost."""
        tasks = [message.task for message in messages if message is not None]
        counts = count_all(tasks)
        reasons: dict[str, int] = {}
        for task in tasks:
            for reason, rows in task.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + rows
        run = tasks[0].run if tasks else self.plan.writing.run
        if self.report:
            _keep(self.report, run, self.plan.shape.queue, counts, reasons, tasks)
        lost = counts[RowOutcome.FAILED] + (counts[RowOutcome.REJECTED] if self.rejected_fail else 0)
        if lost:
            worst = sorted(reasons.items(), key=lambda item: -item[1])[:5]
            raise RowsNotWritten(f"{lost} rows of run {run} are not in the queue: {counts}; {worst}")
        return counts


def _definitions(options: Mapping[str, str]) -> bytes:
    text = options.get("definitions_text")
    if text:
        return text.encode()
    path = options.get("definitions") or os.environ.get("DEFINITIONS")
    if path:
        return Path(path).read_bytes()
    from importlib.resources import files

    return files("millrace").joinpath("definitions.json").read_bytes()


def _keep(
    place: str, run: str, queue: str, counts: dict[str, int], reasons: dict[str, int], tasks: list[TaskCounts]
) -> None:
    """The figures and the rejected rows of a write, under its run's name: a repeat writes them again."""
    folder = Path(place) / run.replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    summary = {
        "action": "sink", "run": run, "queue": queue, "rows": sum(counts.values()), "counts": counts,
        "reasons": reasons,
        "spent": {"units": sum(task.units for task in tasks), "throttled": sum(task.throttled for task in tasks)},
    }  # fmt: skip
    rejects = [json.dumps(row, ensure_ascii=False) + "\n" for task in tasks for row in task.rejected]
    (folder / "rejects.jsonl").write_text("".join(rejects), encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


class SinkWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """One write of a DataFrame."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        return self.sink.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self.sink.commit(messages)


class StreamSinkWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A stream's batches, each a run of its own that can be repeated."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        context = TaskContext.get()
        query = context and context.getLocalProperty(QUERY_ID)
        batch = context and context.getLocalProperty(BATCH_ID)
        if not query or batch is None:
            raise RowsNotWritten(
                "Spark does not tell its tasks the query's and the batch's id: no batch can be repeated"
            )
        return self.sink.write(iterator, f"{query}:{batch}")

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803 (Spark's signature)
        self.sink.commit(messages)


class MillraceSource(DataSource):  # type: ignore[misc]
    """The data source `millrace`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ReadPlan.from_options(self.options).ddl()

    def reader(self, schema: StructType) -> QueueReader:
        plan = ReadPlan.from_options(self.options)
        if list(plan.columns()) != schema.fieldNames():
            raise InvalidField("schema", "columns of one's own", "select, or the option json_fields")
        return (FilteringReader if self.options.get("push_filters") == "true" else QueueReader)(
            replace(plan, schema=schema)
        )

    def writer(self, schema: StructType, overwrite: bool) -> SinkWriter:  # noqa: FBT001 (Spark's signature)
        return SinkWriter(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSinkWriter:  # noqa: FBT001, N802
        return StreamSinkWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> Sink:  # noqa: FBT001
        if overwrite:
            raise InvalidField("mode", "overwrite would throw messages away", "append")
        return Sink.from_options(self.options, schema.fieldNames())


def register(spark: Any) -> None:
    """Make `format("millrace")` known to a session. A session that finds `pyspark_millrace` by itself needs no call."""
    with suppress(AnalysisException):  # it has found it
        spark.dataSource.register(MillraceSource)
