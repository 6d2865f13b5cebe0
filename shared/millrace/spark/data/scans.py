"""The tables themselves as facts: a parallel scan, paced, and a second look at what seemed to have ended.

A scan is no snapshot. A message whose entry was not met may be done, or its entry moved from behind the scan to before
it. So each such message is asked for by its id, which is exact, and the entry that is found becomes a fact as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millrace.engine.status import FILTERED_PLACE, locate_all
from millrace.model.keys import WITHDRAWN
from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.spark.connection import TableConnection, connect
from millrace.spark.data.facts import FACTS, MICROS, Fact, FactKind, fact_of_item, pack_facts
from millrace.spark.rows import Columns
from millrace.stores.dynamodb.items import Item, entry_item, location_item
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.scans import scan_segment

SEGMENT = Columns(table="string", segment="int", segments="int")
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class TableScan:
    """How the tables are read."""

    connection: TableConnection
    started_at: int  #: milliseconds; what the scan does not show was gone then or went later
    segments: int | None = None  #: of each table; else four for each core
    units_per_s: float | None = None  #: read units of the whole scan; None: as fast as the table takes it


def scan_facts(spark: SparkSession, scan: TableScan) -> DataFrame:
    """Both tables as facts. Whoever asks twice scans twice: persist it."""
    slots = spark.sparkContext.defaultParallelism
    segments = scan.segments or 4 * slots
    tables = (scan.connection.queue_table, scan.connection.dead_letter_table)
    rows = [(table, number, segments) for number in range(segments) for table in tables]
    share = None if scan.units_per_s is None else scan.units_per_s / min(slots, len(rows))
    frame = spark.createDataFrame(rows, SEGMENT.ddl).repartition(len(rows), "table", "segment")
    return frame.mapInArrow(partial(_read_segments, scan.connection, scan.started_at * MICROS, share), FACTS.ddl)


def _read_segments(
    connection: TableConnection, at: int, units_per_s: float | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    pace = AdaptiveThrottle(units_per_s)
    tables = connect(connection)
    calls = RetryingClient(tables.client, deadline_s=connection.deadline_s)  # type: ignore[arg-type]
    for batch in batches:
        for table, segment, segments in zip(*(batch.column(name).to_pylist() for name in SEGMENT.names), strict=True):
            for items in scan_segment(calls, table, segment, segments, pace):
                # Seen now, not when the scan began: what came since is missing from an export of the time between.
                seen_at = max(at, tables.runtime.clock() * MICROS)
                facts = [fact.values() for item in items if (fact := fact_of_item(item, seen_at)) is not None]
                if facts:
                    yield pack_facts(facts)


def second_look(facts: DataFrame, scan: TableScan) -> DataFrame:
    """What is in the table of messages that the scan met without an entry and without an ending, as facts."""
    kind, place = F.col("kind"), F.get_json_object("image", "$.place.S")
    accepted = (kind == FactKind.MESSAGE.value) & ~place.isin(FILTERED_PLACE, WITHDRAWN)
    settled = kind.isin(FactKind.ENTRY.value, FactKind.RESULT.value, FactKind.DEAD_LETTER.value)
    doubtful = (
        facts.where(kind != FactKind.AUDIT_EVENT.value)
        .groupBy("id", F.get_json_object("image", "$.nonce.S").alias("nonce"))
        .agg(F.max(accepted).alias("accepted"), F.max(settled).alias("settled"))
        .where("accepted and not settled")
    )
    return doubtful.select("id").mapInArrow(partial(_look_again, scan), FACTS.ddl)


def _look_again(scan: TableScan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ids = batch.column("id").to_pylist()
        found: list[tuple[object, ...]] = []
        for start in range(0, len(ids), AT_ONCE):
            found += [fact.values() for fact in look_again(scan, ids[start : start + AT_ONCE])]
        yield pack_facts(found)


def look_again(scan: TableScan, ids: Sequence[str]) -> list[Fact]:
    """Where messages are that the scan met without an ending: their entries, and their locations as they are now.

    One that died, or was purged, behind the scan's back has no entry either: its location tells it from a done one.
    """
    runtime = connect(scan.connection).runtime
    at = max(runtime.clock(), scan.started_at) * MICROS  # seen after the scan began, whatever the clocks say
    items: list[Item] = []
    for entry, location in locate_all(runtime.store, runtime.store.get_messages(ids)).values():
        items += [entry_item(entry)] if entry else []
        items += [location_item(location)] if location else []
    return [fact for item in items if (fact := fact_of_item(item, at)) is not None]
