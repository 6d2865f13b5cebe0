"""The bulk run itself: fold copies, shape, write, report; exactly one action writes.

    any order    rows ──Spark: name──► repartition(n, tenant, name) ──sort──► shape, fold, write
    ordered      rows ──► shape ──► repartition(n, tenant, id) ──fold──► repartition(n, key) ──sort──► write

Rows of one message must meet in one task. Where Spark can tell by the key's column or the body's hash which those are,
rows cross into Python once; else they are named there first.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from millrace.definitions import load
from millrace.model.queue_spec import Ordering
from millrace.spark.adaptive_throttle import AdaptiveThrottle, Spending
from millrace.spark.connection import TableConnection, connect
from millrace.spark.dead_letters import mark_dead_letter, mark_replayed, with_body
from millrace.spark.driver_jvm import size_in_bytes
from millrace.spark.progress_channel import Channel, ProgressSender, RunCounts
from millrace.spark.row_mapping import CONTENT, NO_NAME, Shape, fold_batches, name_batches, shape_batches
from millrace.spark.rows import COPY, NAME, POSITION, READ, REPORTED, SHAPED, Row, report, unpack
from millrace.spark.writer import Writer, Writing

#: Rows of a task: enough to be worth its start, few enough to repeat.
ROWS_PER_TASK = 25_000
#: What a row takes in its source, more or less; only the number of tasks hangs on it.
BYTES_PER_ROW = 300
ROWS_PER_ARROW_BATCH = 2_000
COLLECT_EVERY = 50_000
MAX_TASKS = 10_000
#: Tasks for a source of unknown size: a few for each core, so that one slow task does not hold up the end.
TASKS_PER_SLOT = 4


class RunCountsParam(AccumulatorParam[RunCounts]):
    """Sums by name, of finished tasks: what they cost, and progress where no task can reach the driver."""

    def zero(self, value: RunCounts) -> RunCounts:  # noqa: ARG002 (Spark's signature)
        return {}

    def addInPlace(self, value1: RunCounts, value2: RunCounts) -> RunCounts:  # noqa: N802 (Spark's name)
        for name, number in value2.items():
            value1[name] = value1.get(name, 0) + number
        return value1


@dataclass(frozen=True, slots=True)
class WritePlan:
    """All that the tasks of a run need to know."""

    connection: TableConnection
    shape: Shape
    writing: Writing
    units_per_s: float | None = None  #: write units of the whole run; None: as fast as the table takes it
    rows_per_s: float | None = None  #: rows of the whole run

    replays: bool = False  #: the rows are dead letters
    replayed_queue: str = ""  #: the rows are messages of this queue; those that died are marked there
    channel: Channel | None = None  #: where tasks say how far they are

    @property
    def ordering(self) -> Ordering:
        return load(self.shape.definitions).queue(self.shape.queue).spec.ordering


def shape_rows(rows: DataFrame, shape: Shape) -> DataFrame:
    """The source's rows as shaped rows, in the partitions of the source."""
    return rows.mapInArrow(partial(shape_batches, shape), SHAPED.ddl)


def enqueue_rows(
    rows: DataFrame, plan: WritePlan, tasks: int, progress: Accumulator[RunCounts] | None = None
) -> DataFrame:
    """Rows as their source gives them, as outcomes. Whoever runs an action on it writes: run exactly one."""
    if plan.ordering.ordered:
        return write_rows(shape_rows(rows, plan.shape), plan, tasks, progress)
    tenant = F.coalesce(_unless_empty("tenant"), F.lit(plan.shape.tenant))
    named = name_rows(rows, plan.shape).repartition(tasks, tenant, F.col(NAME))
    # Of equal keys the first of the file wins; where there is no file, the body decides: a repeated batch may be cut
    # into other parts, and must count the same.
    number = F.when(F.col("path").isNotNull(), F.col("offset"))
    together = named.sortWithinPartitions(tenant, NAME, "path", "block", number, "body")
    _set_batch_size(rows)
    return together.mapInArrow(partial(write_read_batches, _shared_out(rows, plan, tasks), progress), REPORTED.ddl)


def name_rows(rows: DataFrame, shape: Shape) -> DataFrame:
    """The same rows with what those of one message have in common: the idempotency key, the content's for want of one.

    Rows that will be rejected for want of a body have any name.
    """
    if not shape.spark_knows_keys:
        return rows.mapInArrow(partial(name_batches, shape), f"{READ.ddl}, {NAME} string")
    content = F.concat(F.lit(CONTENT), F.sha2(F.col("body"), 256))
    return rows.withColumn(NAME, F.coalesce(_unless_empty("idempotency_key"), content, F.col("path"), F.lit(NO_NAME)))


def _unless_empty(name: str) -> Column:
    return F.when(F.col(name) != "", F.col(name))


def write_rows(
    shaped: DataFrame, plan: WritePlan, tasks: int, progress: Accumulator[RunCounts] | None = None
) -> DataFrame:
    """Shaped rows as outcomes. Whoever runs an action on it writes: run exactly one."""
    folded = fold_copies(shaped, tasks)
    if plan.ordering is Ordering.FIFO:
        tasks = 1
        folded = folded.repartition(1).sortWithinPartitions(*POSITION)
    elif plan.ordering is Ordering.PER_KEY:
        folded = folded.repartition(tasks, "tenant", "key").sortWithinPartitions(*POSITION)
    _set_batch_size(shaped)
    return folded.mapInArrow(partial(write_batches, _shared_out(shaped, plan, tasks), progress), REPORTED.ddl)


def _set_batch_size(frame: DataFrame) -> None:
    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_PER_ARROW_BATCH)


def _shared_out(frame: DataFrame, plan: WritePlan, tasks: int) -> WritePlan:
    """The plan of one task: its share of the run's rates."""
    at_once = min(tasks, frame.sparkSession.sparkContext.defaultParallelism)
    share = None if plan.units_per_s is None else plan.units_per_s / at_once
    rows_share = None if plan.rows_per_s is None else plan.rows_per_s / at_once
    return replace(plan, units_per_s=share, writing=replace(plan.writing, rows_per_s=rows_share))


def fold_copies(shaped: DataFrame, tasks: int) -> DataFrame:
    """One row for each message id, the first of the input, with the later ones in `copies`.

    Partitioned by the hash of the id: a repeated task gets the same rows, which a round robin would not promise.
    """
    same = Window.partitionBy("tenant", "id").orderBy(*POSITION)
    following = same.rowsBetween(1, Window.unboundedFollowing)
    later = F.collect_list(F.struct(*COPY.names)).over(following)
    numbered = (
        shaped.repartition(tasks, "tenant", "id")
        .withColumn("copies", later)
        .withColumn("number", F.row_number().over(same))
    )
    return numbered.where("number = 1").drop("number")


def task_count(rows: DataFrame, given: int | None) -> int:
    """How many tasks write, by the size of the source: up to 25,000 rows each, and no core idle at the end."""
    if given:
        return given
    slots = rows.sparkSession.sparkContext.defaultParallelism
    size = size_in_bytes(rows)
    if size is None:
        return TASKS_PER_SLOT * slots
    rounds = ceil(size / (ROWS_PER_TASK * BYTES_PER_ROW * slots))
    return slots * max(1, min(MAX_TASKS // slots, rounds))


def write_batches(
    plan: WritePlan, progress: Accumulator[RunCounts] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What one task does with shaped rows, on an executor; the plan's rates are this task's share."""
    run = plan.writing.run
    return _write(plan, progress, (row for batch in batches for row in unpack(batch, run)))


def write_read_batches(
    plan: WritePlan, progress: Accumulator[RunCounts] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The same with rows as they were read and named, those of a name behind each other."""
    return _write(plan, progress, fold_batches(plan.shape, plan.writing.run, batches))


def _write(plan: WritePlan, progress: Accumulator[RunCounts] | None, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    line = connect(plan.connection)
    throttle = line.client.throttle = AdaptiveThrottle(plan.units_per_s)
    spec = load(plan.shape.definitions).queue(plan.shape.queue).spec
    mark = partial(mark_dead_letter, plan.replayed_queue) if plan.replayed_queue else None
    prepare, settled = (with_body, mark_replayed) if plan.replays else (None, mark)
    writer = Writer(line.runtime, spec, plan.writing, prepare=prepare, settled=settled)
    counted: RunCounts = {"bytes": 0.0}
    context = TaskContext.get()
    sender = ProgressSender(plan.channel, str(context.partitionId()) if context else "0")
    with rare_collections():
        for lines in writer.write(rows):
            for reported in lines:
                counted[reported.outcome] = counted.get(reported.outcome, 0) + 1
                counted["bytes"] += reported.size
            sender.send(counted | spent(throttle.spending))
            yield report(lines)
    sender.send(counted | spent(throttle.spending), last=True)
    if progress is not None:
        progress.add(counted | spent(throttle.spending))


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python's collector, called for every 700 new objects, would take a tenth of a task's time: a row makes some 20
    and leaves nothing that it could find.
    """
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def spent(spending: Spending) -> RunCounts:
    return {
        "units": spending.units,
        "throttled": float(spending.throttled),
        "throttled_s": float(spending.throttled_s),
        "waited_s": spending.waited_s,
    }
