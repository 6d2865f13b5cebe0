"""The four things a bulk job does, from a session and its settings to a summary.

enqueue     every row of a source becomes a message, once
derive      a folder of work items is the truth; what became ready is enqueued
replay      dead letters that match are enqueued again, once for each run
reconcile   says of every row of a source where its message is; writes nothing to the queue
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millrace.definitions import load
from millrace.engine.status import MessageStatus
from millrace.items.fields import ItemState
from millrace.model.ids import keyed_message_id
from millrace.model.message import DeadLetterFilter
from millrace.spark.bulk_write import (
    WritePlan,
    enqueue_rows,
    shape_rows,
    task_count,
    write_rows,
)
from millrace.spark.connection import TableConnection
from millrace.spark.dead_letters import LINES, Replay, dead_letter_rows, read_dead_letters
from millrace.spark.driver_jvm import size_in_bytes
from millrace.spark.lookup import MISSING, Lookup, find_statuses
from millrace.spark.report import (
    Report,
    count_outcomes,
    keep_outcomes,
    keep_rejects,
    keep_summary,
    tally_outcomes,
)
from millrace.spark.row_mapping import Shape
from millrace.spark.rows import REPORTED, SHAPED, RowOutcome
from millrace.spark.run_watch import RunWatch
from millrace.spark.sources import RowSource, frame_rows, read_items, read_source, read_starts
from millrace.spark.work_items import derive_states, find_cycles, read_fields, ready_rows
from millrace.spark.writer import Writing

#: The lake knows the message, not how it ended.
ARRIVED = "arrived"
_ENDED = [status.value for status in MessageStatus if status.ended]
#: How a message's status is called when a source is held against the queue.
STANDINGS = {
    "missing": MISSING, "ready": "queued", "scheduled": "queued", "in_flight": "queued", "done": "done", "dead": "dead",
    "purged": "purged", "filtered": "filtered", ARRIVED: ARRIVED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BulkRun:
    """What every action needs."""

    spark: SparkSession
    connection: TableConnection
    definitions: bytes
    queue: str
    tenant: str
    run: str
    place: str  #: where the report goes; empty: nowhere, only its figures come back
    say: Callable[[str], None] | None  #: a line for whoever watches; None: a bar in a terminal, lines elsewhere
    writing: Writing = field(default_factory=lambda: Writing(""))
    units_per_s: float | None = None
    rows_per_s: float | None = None
    tasks: int | None = None

    def shape(self, source: RowSource | None = None) -> Shape:
        if source is None:
            return Shape(self.definitions, self.queue, self.tenant)
        return Shape(self.definitions, self.queue, self.tenant, source.lines, source.bodies_are_columns)

    def look(self) -> Lookup:
        return Lookup(self.connection, self.definitions, self.queue)

    def plan(self, shape: Shape, *, replays: bool = False) -> WritePlan:
        return WritePlan(self.connection, shape, self.writing, self.units_per_s, self.rows_per_s, replays)


def enqueue_source(job: BulkRun, source: RowSource) -> Report:
    """Every row of the source into the queue; safe to repeat."""
    return _enqueue(job, read_source(job.spark, source), job.shape(source), source)


def enqueue_frame(job: BulkRun, frame: DataFrame, fields: Mapping[str, str | Column]) -> Report:
    """Every row of a DataFrame into the queue; safe to repeat."""
    shape = Shape(job.definitions, job.queue, job.tenant, bodies_are_columns="body" not in fields)
    return _enqueue(job, frame_rows(frame, fields), shape)


def _enqueue(job: BulkRun, rows: DataFrame, shape: Shape, source: RowSource | None = None) -> Report:
    # Bytes of rows tell how far a run is only where they are the bytes of the source.
    watch = RunWatch(job.spark, size_in_bytes(rows) if shape.lines else None)
    plan = replace(job.plan(shape), channel=watch.channel)
    outcomes = enqueue_rows(rows, plan, task_count(rows, job.tasks), watch.finished)
    return _write(job, "enqueue", outcomes, watch, source=source)


def write_shaped(
    job: BulkRun,
    action: str,
    shaped: DataFrame,
    plan: WritePlan,
    tasks: int,
    details: dict[str, Any] | None = None,
) -> Report:
    """Write rows that are shaped already, keep the report, sum it up."""
    watch = RunWatch(job.spark)
    outcomes = write_rows(shaped, replace(plan, channel=watch.channel), tasks, watch.finished)
    return _write(job, action, outcomes, watch, details=details)


def _write(
    job: BulkRun,
    action: str,
    outcomes: DataFrame,
    watch: RunWatch,
    *,
    source: RowSource | None = None,
    details: dict[str, Any] | None = None,
) -> Report:
    """Write, keep the report, sum it up."""
    names = [outcome.value for outcome in RowOutcome]
    with watch.watching(job.say):
        kept = keep_outcomes(outcomes, job.place) if job.place else None
        counts, reasons = tally_outcomes(outcomes, names) if kept is None else count_outcomes(kept, names)
    rejects = ""
    if kept is not None and counts[RowOutcome.REJECTED]:
        rejects = keep_rejects(kept, job.place, None if source is None else read_starts(job.spark, source))
    spent = watch.spent(job.units_per_s)
    summary = Report(action, job.run, job.queue, counts, reasons, spent, details or {}, rejects)
    if job.place:
        keep_summary(job.spark, summary, job.place)
    return summary


def replay_dead_letters(job: BulkRun, only: DeadLetterFilter, export: str | None, *, dry_run: bool, now: int) -> Report:
    """Dead letters that match, enqueued again; from the table, or from its export to S3."""
    replay = Replay(job.connection, job.definitions, job.queue, job.tenant, job.run, only, now)
    lines = _export_lines(job.spark, export) if export else _table_lines(job, replay)
    shaped = lines.mapInArrow(partial(dead_letter_rows, replay), SHAPED.ddl)
    if dry_run:
        return _preview(job, shaped)
    tasks = task_count(lines, job.tasks)
    return write_shaped(job, "replay", shaped, job.plan(job.shape(), replays=True), tasks)


def _table_lines(job: BulkRun, replay: Replay) -> DataFrame:
    """The table, read side by side: a stretch of time for each of a few tasks."""
    kept = load(job.definitions).queue(job.queue).spec.retention.dead_letter_seconds * 1000
    first = max(replay.only.failed_from, replay.now - kept)
    last = min(replay.only.failed_before, replay.now + 60_000)
    count = 4 * job.spark.sparkContext.defaultParallelism
    edges = [first + (last - first) * number // count for number in range(count)] + [last]
    edges[0] = replay.only.failed_from  # what was to be kept for longer, once, may lie before
    spans = [(f"{start:013d}", f"{end:013d}") for start, end in pairwise(edges) if start < end]
    frame = job.spark.createDataFrame(spans, "after string, upto string").repartition(max(1, len(spans)))
    return frame.mapInArrow(partial(read_dead_letters, replay), LINES.ddl)


def _export_lines(spark: SparkSession, path: str) -> DataFrame:
    lines = spark.read.text(path, pathGlobFilter="*.json*", recursiveFileLookup=True, lineSep="\n")
    return lines.select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.decode(F.col("value").cast("binary"), "UTF-8").alias("value"),  # broken bytes must not end the task
    )


def _preview(job: BulkRun, shaped: DataFrame) -> Report:
    """What would be replayed, by what went wrong."""

    def of(name: str) -> Any:
        return F.coalesce(F.get_json_object("dead_letter", f"$.Item.{name}.S"), F.lit(""))

    groups = (
        shaped.where("reason is null")
        .groupBy(of("reason").alias("reason"), of("error_type").alias("error_type"), of("project").alias("project"))
        .count()
        .orderBy(F.desc("count"))
        .collect()
    )
    reasons = [("would replay", _described(group), group["count"]) for group in groups]
    return Report("replay (dry run)", job.run, job.queue, {"matching": sum(n for _, _, n in reasons)}, reasons[:20])


def _described(group: Any) -> str:
    parts = (group["reason"], group["error_type"], f"project {group['project']}" if group["project"] else "")
    return " · ".join(part for part in parts if part)


def reconcile_source(job: BulkRun, source: RowSource, lake: DataFrame | None = None) -> Report:
    """Where the message of each row is: missing, queued, done, dead. What the table forgot, the lake tells.

    What a provider says it sent came by its webhook: deliveries of every webhook that feeds the queue count.
    """
    rows = read_source(job.spark, source)
    shaped = shape_rows(rows, job.shape(source)).persist()
    try:
        webhooks = load(job.definitions).webhooks_of(job.queue)
        look = replace(job.look(), webhooks=tuple(webhook.name for webhook in webhooks))
        found = find_statuses(shaped, look, task_count(rows, job.tasks))
        if lake is not None:
            found = recall(found, lake.where(F.col("queue") == job.queue))
        names = F.create_map(*[F.lit(text) for pair in STANDINGS.items() for text in pair])
        standing = (
            shaped.join(found, ["tenant", "id"], "left")
            .withColumn("message_id", F.when(F.col("reason").isNull(), F.col("id")))
            .withColumn("outcome", F.coalesce(names[F.col("status")], F.lit(RowOutcome.REJECTED.value)))
        )
        kept = keep_outcomes(standing.select(*REPORTED.names), job.place)
    finally:
        shaped.unpersist()
    rejects = ""
    counts, reasons = count_outcomes(kept, [*dict.fromkeys(STANDINGS.values()), RowOutcome.REJECTED.value])
    if counts[RowOutcome.REJECTED]:
        rejects = keep_rejects(kept, job.place, read_starts(job.spark, source))
    summary = Report("reconcile", job.run, job.queue, counts, reasons, rejects=rejects)
    keep_summary(job.spark, summary, job.place)
    return summary


def recall(found: DataFrame, lake: DataFrame) -> DataFrame:
    """(tenant, id, status) with what the lake knows of ids that are missing: how the newest life of each ended.

    A webhook's keys are a space of their own in the queue. Here they count like a producer's: what a provider says it
    sent came by its webhook.
    """
    own_id = F.udf(lambda tenant, queue, key: keyed_message_id(tenant, queue, key) if key else None, "string")
    ids = F.array("message_id", own_id("tenant", "queue", "idempotency_key"))
    ended = F.when(F.col("status").isin(_ENDED), F.col("status")).otherwise(ARRIVED).alias("known")
    lives = lake.select("tenant", F.explode(F.array_distinct(ids)).alias("id"), "received_at", ended)
    newest = lives.groupBy("tenant", "id").agg(F.max_by("known", "received_at").alias("known"))
    forgotten = F.col("status") == MISSING
    status = F.when(forgotten, F.coalesce("known", "status")).otherwise(F.col("status")).alias("status")
    return found.join(newest, ["tenant", "id"], "left").select("tenant", "id", status)


def derive_queue(job: BulkRun, folder: str) -> Report:
    """Enqueue the work items that became ready; say of every other why it is not."""
    items = read_items(job.spark, folder)
    tasks = task_count(items, job.tasks)
    read = read_fields(items).persist()  # each join would read the files again
    states = derive_states(read).persist()
    candidates = shape_rows(ready_rows(states), job.shape()).persist()
    found = find_statuses(candidates, job.look(), tasks).persist()
    try:
        missing = found.where(F.col("status") == MISSING).select("tenant", "id")
        fresh = candidates.join(missing, ["tenant", "id"], "left_semi")
        rejected = candidates.where("reason is not null")
        queued = {row["status"]: row["count"] for row in found.groupBy("status").count().collect()}
        details = _derived(job, states, queued)
        return write_shaped(job, "derive", fresh.unionByName(rejected), job.plan(job.shape()), tasks, details)
    finally:
        for kept in (found, candidates, states, read):
            kept.unpersist()


def _derived(job: BulkRun, states: DataFrame, statuses: dict[str, int]) -> dict[str, Any]:
    """What there is to say of the folder: how many items are in which state, and what is wrong with which."""
    states.select("path", "id", "state", "reason").write.mode("overwrite").parquet(f"{job.place}/items")
    counted = {row["state"]: row["count"] for row in states.groupBy("state").count().collect()}
    cycles = find_cycles(states)
    wrong = states.where(F.col("state").isin(ItemState.MALFORMED, ItemState.DUPLICATE, ItemState.MISSING_DEPENDENCY))
    return {
        "items": {state.value: counted.get(state.value, 0) for state in ItemState},
        "already_there": {status: count for status, count in statuses.items() if status != MISSING},
        "cycles": cycles,
        "problems": [
            {"file": row["path"], "id": row["id"], "state": row["state"], "reason": row["reason"]}
            for row in wrong.orderBy("path").limit(1_000).collect()
        ],
    }
