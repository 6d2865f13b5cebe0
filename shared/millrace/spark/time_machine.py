"""Messages of the past, run again: done or dead, from the tables, exports or the lake, each once for a run.

Which messages a run replays is noted before the first of them is written (`REPORT/RUN/selected`: ids, no bodies), so a
repeat of the run replays those and no others, whatever has ended or arrived since. Every new message names the one that
it comes from (`origin`) and passes the same admission as a producer's. What was erased is not replayed: a message that
its table ought to hold still, and does not, counts as erased, however old the export or the lake is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millrace.admission.admit import admit
from millrace.admission.replays import EndedMessage, draft_again
from millrace.definitions import load
from millrace.engine.dead_letters import message_replay_key
from millrace.engine.drafts import check
from millrace.engine.filtered import filtered_id
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus
from millrace.model.errors import InvalidField, InvalidRequest
from millrace.model.message import Draft
from millrace.model.replay_windows import ReplayOf
from millrace.spark.actions import BulkRun, write_shaped
from millrace.spark.bulk_write import task_count
from millrace.spark.connection import TableConnection, connect
from millrace.spark.data.typed_columns import INFER, with_typed_body
from millrace.spark.files import exists
from millrace.spark.report import Report
from millrace.spark.row_mapping import rejected
from millrace.spark.rows import SHAPED, Position, Row, pack
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore

SAMPLES = 10
FOREVER = 2**62
ERASED = "erased: The table has forgotten it before its time."
BODY_LOST = "body_lost: Its body is gone, or was encrypted and left out of the lake."


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which messages a run replays, and where to."""

    of: ReplayOf
    to: str  #: a queue's name
    where: str = ""  #: Spark SQL over the columns of `millrace.spark.read`
    received_from: int = 0  #: milliseconds
    received_before: int = FOREVER
    from_past: bool = False  #: the source is an export or the lake: the table is asked what was erased since


@dataclass(frozen=True, slots=True)
class Rerun:
    """What an executor needs to make a message's row."""

    connection: TableConnection
    definitions: bytes
    queue: str
    chosen: Chosen
    tenant: str
    run: str
    now: int


def replay_messages(job: BulkRun, messages: DataFrame, chosen: Chosen, *, dry_run: bool, now: int) -> Report:
    """Enqueue messages again that match; `messages` as `millrace.spark.read` or the lake give them.

    Killed and run again under its name it ends the same; a dry run writes nothing at all, and shows counts and samples.
    """
    load(job.definitions).queue(chosen.to)
    matching = choose(job, messages, chosen)
    if not dry_run:
        matching = _noted(job, matching)
    rerun = Rerun(job.connection, job.definitions, job.queue, chosen, job.tenant, job.run, now)
    columns = _handed(matching)
    shaped = columns.mapInArrow(partial(replay_rows, rerun), SHAPED.ddl)
    if dry_run:
        return _preview(job, matching, shaped, chosen)
    target = replace(job, queue=chosen.to)
    plan = replace(target.plan(target.shape()), replayed_queue=job.queue)
    details = {"of": chosen.of.value, "from": job.queue, "selected": matching.count()}
    return write_shaped(target, "replay", shaped, plan, task_count(columns, job.tasks), details)


def choose(job: BulkRun, messages: DataFrame, chosen: Chosen) -> DataFrame:
    """The messages that match. None that this very run has made: it would go on for ever. Raises InvalidField."""
    at = F.unix_millis("received_at")
    matching = messages.where(
        (F.col("tenant") == job.tenant)
        & (F.col("queue") == job.queue)
        & F.col("status").isin(chosen.of.statuses)
        & (at >= chosen.received_from)
        & (at < chosen.received_before)
        & ~F.col("run").eqNullSafe(job.run)
    )
    if not chosen.where:
        return matching
    return where_sql(with_typed_body(matching, job.definitions, job.queue, INFER), chosen.where)


def where_sql(messages: DataFrame, where: str) -> DataFrame:
    """Those of the messages for which a condition holds. Raises InvalidField for one that is none."""
    try:
        return messages.where(where)
    except (AnalysisException, ParseException) as error:
        raise InvalidField("where", str(error).splitlines()[0][:200], "Spark SQL over the messages' columns") from None


def _noted(job: BulkRun, matching: DataFrame) -> DataFrame:
    """The messages that this run replays: those that its first call has found, or finds now and notes."""
    place, keys = f"{job.place}/selected", ["message_id", "received_at"]
    if not exists(job.spark, f"{place}/_SUCCESS"):
        matching.select(*keys).write.mode("overwrite").parquet(place)
    return matching.join(job.spark.read.parquet(place).distinct(), keys, "left_semi")


def _handed(matching: DataFrame) -> DataFrame:
    """What an executor gets of a message."""
    received, expires = F.unix_millis("received_at").alias("received"), F.unix_millis("expires_at").alias("expires")
    return matching.select(
        "message_id", "status", "key", "priority", "project", "labels", "correlation_id", "source", "content_type",
        "headers", "body", "dead_letter", received, expires,
    )  # fmt: skip


def replay_rows(rerun: Rerun, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Messages, each as the row that replays it, on an executor; what must not or cannot be replayed is rejected."""
    definition = load(rerun.definitions).queue(rerun.chosen.to)
    queue = Runtime(MemoryStore(), MemoryBlobs()).queue(rerun.tenant, definition.spec)
    for batch in batches:
        given = batch.to_pylist()
        erased = _erased(rerun, given) if rerun.chosen.from_past else set()
        rows = [_row(rerun, queue, one, gone=one["message_id"] in erased) for one in given]
        if rows:
            yield pack(rows)


def _erased(rerun: Rerun, given: list[Mapping[str, Any]]) -> set[str]:
    """Ids whose message the table ought to hold and does not, or of which it holds no more than that it was erased."""
    kept = {one["message_id"]: one["received"] for one in given if one["expires"] > rerun.now}
    found = connect(rerun.connection).runtime.store.get_messages(list(kept)) if kept else {}
    return {
        id_
        for id_, at in kept.items()
        if id_ not in found or found[id_].received_at < at or (found[id_].erased and found[id_].received_at == at)
    }


def _row(rerun: Rerun, queue: Queue, one: Mapping[str, Any], *, gone: bool) -> Row:
    place = Position(one["message_id"], one["received"], 0)
    if gone or one["body"] is None:
        return rejected(place, rerun.tenant, ERASED if gone else BODY_LOST, b"")
    key = message_replay_key(one["message_id"], one["received"], one["dead_letter"] or "", rerun.run)
    definition = load(rerun.definitions).queue(rerun.chosen.to)
    try:
        now = queue.now()
        admitted = admit(definition, _draft(rerun, queue, one), now)
        draft = replace(admitted.draft, idempotency_key=None)
        checked = check(queue, draft, now, system_key=key)
    except InvalidRequest as error:
        return rejected(place, rerun.tenant, f"{error.code}: {error}", b"")
    id_ = filtered_id(queue, checked) if admitted.filtered else checked.id
    dead_letter = one["dead_letter"] if one["status"] == MessageStatus.DEAD else ""
    in_order = Position("", one["received"], 0)  # an ordered queue takes them as they came
    return Row(in_order, rerun.tenant, id_, draft, key, dead_letter or "", filtered=admitted.filtered)


def _draft(rerun: Rerun, queue: Queue, one: Mapping[str, Any]) -> Draft:
    ended = EndedMessage(
        one["message_id"],
        one["received"],
        one["content_type"],
        dict(one["headers"] or ()),
        one["correlation_id"],
        one["source"] or "",
        one["project"],
        one["key"] or "",
        died=one["status"] == MessageStatus.DEAD,
        priority=one["priority"],
        labels=None if one["labels"] is None else tuple(one["labels"]),
    )
    return draft_again(ended, one["body"], queue.spec, own=rerun.chosen.to == rerun.queue)


def _preview(job: BulkRun, matching: DataFrame, shaped: DataFrame, chosen: Chosen) -> Report:
    """What would be replayed: counts by how it ended and why, what admission would refuse, and a few of them."""
    groups = (
        matching.groupBy("status", F.coalesce("error_type", F.lit("")).alias("error_type"))
        .count()
        .orderBy(F.desc("count"))
        .collect()
    )
    refused = shaped.where("reason is not null or filtered").groupBy("reason").count().collect()
    samples = matching.orderBy("received_at", "message_id").limit(SAMPLES)
    shown = samples.select("message_id", "status", "received_at", "key", "attempts", "error_type", "size").collect()
    reasons = [("would replay", " · ".join(filter(None, row[:2])), row["count"]) for row in groups]
    reasons += [("would not", row["reason"] or "filtered by the queue", row["count"]) for row in refused]
    out = sum(row["count"] for row in refused)
    found = sum(row["count"] for row in groups)
    told = [{name: str(value) for name, value in row.asDict().items() if value is not None} for row in shown]
    details = {"of": chosen.of.value, "to": chosen.to, "samples": told}
    counts = {"would replay": found - out, "would not": out}
    return Report("replay (dry run)", job.run, job.queue, counts, reasons[:20], details=details)
