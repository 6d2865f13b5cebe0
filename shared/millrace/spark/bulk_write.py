"""The bulk run itself: shape, fold copies, write, report; exactly one action writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from millrace.definitions import load
from millrace.model.queue_spec import Ordering
from millrace.spark.adaptive_throttle import AdaptiveThrottle, Spending
from millrace.spark.connection import TableConnection, connect
from millrace.spark.dead_letters import mark_replayed, with_body
from millrace.spark.row_mapping import Shape, shape_batches
from millrace.spark.rows import COPY, POSITION, REPORTED, SHAPED, report, unpack
from millrace.spark.writer import Writer, Writing

#: Rows of a task: enough to be worth its start, few enough to repeat.
ROWS_PER_TASK = 25_000
#: What a row takes in its source, more or less; only the number of tasks hangs on it.
BYTES_PER_ROW = 300
ROWS_PER_ARROW_BATCH = 2_000
MAX_TASKS = 10_000
#: What Spark takes for the size of something that it cannot see into, such as a table read by our own code.
UNKNOWN = 2**62
#: Tasks for such a source: a few for each core, so that one slow task does not hold up the end.
TASKS_PER_SLOT = 4

RunCounts = dict[str, float]


class RunCountsParam(AccumulatorParam[RunCounts]):
    """Sums by name, of finished tasks: for progress only, since a repeated task counts twice."""

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

    @property
    def ordering(self) -> Ordering:
        return load(self.shape.definitions).queue(self.shape.queue).spec.ordering


def shape_rows(rows: DataFrame, shape: Shape) -> DataFrame:
    """The source's rows as shaped rows, in the partitions of the source."""
    return rows.mapInArrow(partial(shape_batches, shape), SHAPED.ddl)


def write_rows(
    shaped: DataFrame, plan: WritePlan, tasks: int, progress: Accumulator[RunCounts] | None = None
) -> DataFrame:
    """Shaped rows as outcomes. Whoever runs an action on it writes: run exactly one."""
    spark = shaped.sparkSession
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", ROWS_PER_ARROW_BATCH)
    folded = fold_copies(shaped, tasks)
    if plan.ordering is Ordering.FIFO:
        tasks = 1
        folded = folded.repartition(1).sortWithinPartitions(*POSITION)
    elif plan.ordering is Ordering.PER_KEY:
        folded = folded.repartition(tasks, "tenant", "key").sortWithinPartitions(*POSITION)
    at_once = min(tasks, spark.sparkContext.defaultParallelism)
    share = None if plan.units_per_s is None else plan.units_per_s / at_once
    rows_share = None if plan.rows_per_s is None else plan.rows_per_s / at_once
    shared_out = replace(plan, units_per_s=share, writing=replace(plan.writing, rows_per_s=rows_share))
    return folded.mapInArrow(partial(write_batches, shared_out, progress), REPORTED.ddl)


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
    """How many tasks write, by the size of the source: about 25,000 rows each, and no core idle."""
    if given:
        return given
    slots = rows.sparkSession.sparkContext.defaultParallelism
    leaves = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    size = sum(int(str(leaves.apply(n).stats().sizeInBytes())) for n in range(leaves.size()))
    if size >= UNKNOWN:
        return TASKS_PER_SLOT * slots
    return max(slots, min(MAX_TASKS, size // (ROWS_PER_TASK * BYTES_PER_ROW)))


def write_batches(
    plan: WritePlan, progress: Accumulator[RunCounts] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What one task does, on an executor; the plan's rates are this task's share."""
    line = connect(plan.connection)
    throttle = line.client.throttle = AdaptiveThrottle(plan.units_per_s)
    spec = load(plan.shape.definitions).queue(plan.shape.queue).spec
    run = plan.writing.run
    rows = (row for batch in batches for row in unpack(batch, run))
    prepare, settled = (with_body, mark_replayed) if plan.replays else (None, None)
    writer = Writer(line.runtime, spec, plan.writing, prepare=prepare, settled=settled)
    counted: RunCounts = {}
    for lines in writer.write(rows):
        for reported in lines:
            counted[reported.outcome] = counted.get(reported.outcome, 0) + 1
        yield report(lines)
    if progress is not None:
        progress.add(counted | spent(throttle.spending))


def spent(spending: Spending) -> RunCounts:
    return {"units": spending.units, "throttled": float(spending.throttled), "waited_s": spending.waited_s}
