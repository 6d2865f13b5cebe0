"""A lake of everything: each message that ever arrived and how it ended, as Parquet by day and queue.

    LAKE/messages/day=…/queue=…/    a row for each message, with its body
    LAKE/erased/                    ids that were erased, so that no old export brings them back
    LAKE/loose/                     what was seen of messages that no export has shown yet

Merging is idempotent. A row carries the facts that it was made of, and is made anew from those and from what the input
adds; which views were merged is kept beside them. So the same export twice, exports that overlap or come in any order,
and a killed run that is run again all give the same lake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructType

from millrace.engine.status import MessageStatus
from millrace.spark.connection import TableConnection
from millrace.spark.data.lake_files import ERASED, LOOSE, MESSAGES, PARTITIONED_BY, LakeFolder
from millrace.spark.data.lives import Views
from millrace.spark.data.message_rows import LIFE_DDL, Deriving, lives_by_id, with_times
from millrace.spark.data.read import INTERNAL, QueueFacts

_ENDED = [status.value for status in MessageStatus if status.ended]
_ERASED_DDL = "message_id string, erased_at bigint"
_LOOSE_DDL = "message_id string, facts string, seen_at bigint"
#: Facts without a message are forgotten after so long: an entry whose message was never committed leaves some.
_LOOSE_FOR = 40 * 86_400 * 1_000_000
_DAY = "cast(date_add(date'1970-01-01', cast(floor(received_at / 86400000) as int)) as string)"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did."""

    ids: int  #: messages looked at
    erased: int
    partitions: int  #: written anew


def merge_into_lake(lake: LakeFolder, known: QueueFacts, connection: TableConnection | None, run: str) -> Merged:
    """Merge what is known of the tables into the lake.

    Killed anywhere it leaves the lake as it was, or as it is afterwards; run again it ends the same. One run at a time:
    raises StoreUnavailable where another has changed the lake meanwhile.
    """
    spark = lake.spark
    lake.forget_staged(run)
    state = lake.read_state()
    views = Views(tuple(state.get("full", ())), tuple((a, b) for a, b in state.get("windows", ())))
    all_views = views.with_more(known.views)
    rows = lake.read(MESSAGES, lake_schema(spark))
    facts = known.facts.persist()
    ids = _affected(rows, facts, views, all_views, lake.read(LOOSE, _LOOSE_DDL)).persist()
    kept = _remembered(lake, rows, ids)
    deriving = Deriving(all_views, connection, dictionaries=known.dictionaries, decrypts=False)
    lives = lives_by_id(facts, deriving, kept).persist()
    try:
        changed = _stage(lake, run, rows, ids, lives)
        _stage_rest(lake, run, ids, lives, all_views)
        state = {"version": state.get("version", 0) + 1, "full": all_views.full, "windows": all_views.stretches()}
        merged = Merged(ids.count(), lives.where("erased_at is not null").count(), len(changed.touched))
        lake.commit(run, changed.emptied, state)
        return merged
    finally:
        for frame in (lives, ids, facts):
            frame.unpersist()


@dataclass(frozen=True, slots=True)
class _Changed:
    touched: list[tuple[str, str]]
    emptied: list[str]


def _affected(rows: DataFrame, facts: DataFrame, before: Views, after: Views, loose: DataFrame) -> DataFrame:
    """Ids that the new facts are about, and those that the new views may tell more of by not showing them."""
    open_ = F.col("status").isNull() | ~F.col("status").isin(_ENDED)
    new = sorted(set(after.full) - set(before.full))
    if new:
        open_ = open_ | (F.col("expires_at") > F.expr(f"timestamp_micros({new[0]})"))
    unsure = rows.where(open_).select(F.col("message_id").alias("id"))
    return facts.select("id").union(unsure).union(loose.select("message_id")).distinct()


def _remembered(lake: LakeFolder, rows: DataFrame, ids: DataFrame) -> DataFrame:
    """What the lake knows of these ids: (id, kept, erased_at)."""
    lives = rows.select(F.col("message_id").alias("id"), "facts", "body", "body_lost", F.expr("false").alias("loose"))
    loose = lake.read(LOOSE, _LOOSE_DDL).select(
        F.col("message_id").alias("id"),
        "facts",
        F.lit(None).cast("binary").alias("body"),
        F.expr("false").alias("body_lost"),
        F.expr("true").alias("loose"),
    )
    kept = F.collect_list(F.struct("facts", "body", "body_lost", "loose")).alias("kept")
    of_lake = lives.unionByName(loose).join(ids, "id", "left_semi").groupBy("id").agg(kept)
    erased = lake.read(ERASED, _ERASED_DDL).select(F.col("message_id").alias("id"), "erased_at")
    return of_lake.join(erased.join(ids, "id", "left_semi"), "id", "full_outer")


def _stage(lake: LakeFolder, run: str, rows: DataFrame, ids: DataFrame, lives: DataFrame) -> _Changed:
    """Write every partition that changes, whole: the lives of these ids, and the rows of others beside them."""
    new = with_times(lives.where("tenant is not null").withColumn("day", F.expr(_DAY))).drop("erased_at")
    keys = list(PARTITIONED_BY[MESSAGES])
    affected = rows.join(ids, rows["message_id"] == ids["id"], "left_semi")
    old_keys = {tuple(row) for row in affected.select(*keys).distinct().collect()}
    new_keys = {tuple(row) for row in new.select(*keys).distinct().collect()}
    touched = sorted(old_keys | new_keys)
    if touched:
        where = lake.spark.createDataFrame(touched, "day string, queue string")
        beside = rows.join(ids, rows["message_id"] == ids["id"], "left_anti")
        beside = beside.join(F.broadcast(where), keys, "left_semi")
        together = new.select(*rows.columns).unionByName(beside.select(*rows.columns)).persist()
        left = {tuple(row) for row in together.select(*keys).distinct().collect()}
        lake.stage(run, MESSAGES, together)
        together.unpersist()
    else:
        left = set()
    emptied = [f"{MESSAGES}/day={day}/queue={queue}" for day, queue in sorted(old_keys - left)]
    return _Changed(touched, emptied)


def _stage_rest(lake: LakeFolder, run: str, ids: DataFrame, lives: DataFrame, views: Views) -> None:
    """Ids that were erased, and loose facts: both small, written whole."""
    known = lake.read(ERASED, _ERASED_DDL)
    found = lives.where("erased_at is not null").select("message_id", "erased_at")
    erased = known.unionByName(found).groupBy("message_id").agg(F.max("erased_at").alias("erased_at"))
    lake.stage(run, ERASED, erased)
    others = lake.read(LOOSE, _LOOSE_DDL).join(ids, F.col("message_id") == ids["id"], "left_anti")
    own = lives.where("tenant is null and facts is not null").select("message_id", "facts")
    newest = max([*views.full, *(until for _, until in views.windows)], default=0)
    loose = own.withColumn("seen_at", F.lit(newest).cast("bigint")).unionByName(others)
    lake.stage(run, LOOSE, loose.where(F.col("seen_at") > newest - _LOOSE_FOR))


def lake_schema(spark: SparkSession) -> StructType:
    """The columns of a lake's messages, partitions last."""
    empty = with_times(spark.createDataFrame([], LIFE_DDL)).drop("erased_at", "queue")
    return StructType(empty.schema.fields).add("day", StringType()).add("queue", StringType())


def read_lake(lake: LakeFolder) -> DataFrame:
    """The lake's messages, as `millrace.spark.read` gives them, with the `day` of their arrival."""
    lake.recover()
    return lake.read(MESSAGES, lake_schema(lake.spark)).drop(*INTERNAL)


def register_table(lake: LakeFolder, name: str) -> None:
    """Make the lake's messages a table of the session's catalog, or bring its partitions up to date."""
    spark = lake.spark
    if not spark.catalog.tableExists(name):
        spark.catalog.createTable(name, path=f"{lake.path}/{MESSAGES}", source="parquet")
    spark.sql(f"MSCK REPAIR TABLE {name} SYNC PARTITIONS")
    spark.catalog.refreshTable(name)


def count_by_status(messages: DataFrame) -> dict[str, int]:
    rows: list[Any] = messages.groupBy("status").count().collect()
    return {row["status"] or "unknown": row["count"] for row in rows}
