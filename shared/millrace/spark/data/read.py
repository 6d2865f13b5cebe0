"""`millrace.spark.read`: messages, attempts, results, dead letters and audit events as DataFrames.

from the tables     a parallel scan, paced; read units, and as fresh as it gets
from exports        DynamoDB's exports to S3, full and incremental; no read units
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millrace.model.audit import AuditEvent
from millrace.model.clock import system_clock
from millrace.model.errors import InvalidField
from millrace.spark.connection import TableConnection
from millrace.spark.data.exports import (
    Export,
    KnownDictionary,
    export_facts,
    exported_dictionaries,
    find_exports,
)
from millrace.spark.data.facts import FACTS, MICROS, FactKind, fact_of_row
from millrace.spark.data.lives import Views
from millrace.spark.data.message_rows import (
    LIFE_DDL,
    Deriving,
    life_row,
    lives_by_id,
    pack_lives,
    with_times,
)
from millrace.spark.data.parts import dead_life
from millrace.spark.data.scans import TableScan, scan_facts, second_look
from millrace.spark.data.typed_columns import INFER, with_typed_body
from millrace.spark.rows import Columns
from millrace.spark.run_settings import demand_classic
from millrace.stores.dynamodb.audit import audit_event_of

#: Columns that only the lake needs.
INTERNAL = ("facts", "erased_at", "nonce")
_NUMBERS = {"at": "long", "ttl": "long", "ended_at": "long"}
AUDIT = Columns(**{field.name: _NUMBERS.get(field.name, "string") for field in fields(AuditEvent)})


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is known of the tables, and how far it reaches."""

    facts: DataFrame
    views: Views
    dead_letters_from: int = 0  #: what was last seen of a dead letter before this (microseconds) is gone
    dictionaries: tuple[KnownDictionary, ...] = ()  #: what exports hold, where they are all that there is


def read(
    spark: SparkSession,
    what: str = "messages",
    *,
    connection: TableConnection | None = None,
    export: str | Sequence[str] | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    definitions: bytes | None = None,
    json_fields: str | Mapping[str, str] = INFER,
    bodies: bool = True,
    segments: int | None = None,
    units_per_s: float | None = None,
    received_from: int = 0,
    received_before: int = 2**62,
    now: int | None = None,
) -> DataFrame:
    """Messages, attempts, results, dead letters or audit events of a deployment.

    connection   its tables, and the bucket of large bodies; from exports only the bucket and the tables' names count
    export       folders of DynamoDB exports (or what holds them) to read instead of the tables
    queue        with `definitions` its type's fields are columns: `payload.incident.urgency`
    json_fields  how fields of type json become columns: `infer` (reads a sample first), `text`, or their DDL by path
    bodies       False leaves bodies out, and reads nothing from S3
    units_per_s  read units a second of the scan; segments: its parts; now: its time (milliseconds)
    received_…   only messages (and dead letters of messages) that came in this time (milliseconds)
    Raises InvalidField for what does not fit together. Nothing is read before somebody asks for rows, except for
    manifests, the sample and, of exports without a connection, the dictionaries.
    """
    if what not in KINDS:
        raise InvalidField("what", f"{what!r} is unknown", ", ".join(KINDS))
    demand_classic(spark)
    if export is None and connection is None:
        raise InvalidField("connection", "is missing", "the tables to scan, or `export`")
    if export is not None:
        known = exported_facts(spark, find_exports(spark, export), connection)
    elif connection is not None:
        known = scanned_facts(spark, TableScan(connection, now or system_clock(), segments, units_per_s))
    asked = Asked(spark, connection, queue, tenant, definitions, json_fields, bodies, (received_from, received_before))
    return KINDS[what](asked, known)


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to read."""

    spark: SparkSession
    connection: TableConnection | None
    queue: str | None
    tenant: str | None
    definitions: bytes | None
    json_fields: str | Mapping[str, str] = INFER
    bodies: bool = True
    received: tuple[int, int] = (0, 2**62)

    def deriving(self, known: QueueFacts, *, bodies: bool) -> Deriving:
        wanted = self.bodies and bodies
        return Deriving(
            known.views, self.connection, self.tenant, self.queue, wanted, self.received, known.dictionaries
        )


def exported_facts(spark: SparkSession, exports: Sequence[Export], connection: TableConnection | None) -> QueueFacts:
    """What exports say. Raises InvalidField where it cannot be told which of them is the queue table's."""
    tables = {export.table for export in exports}
    queue_table = connection.queue_table if connection else min(tables)
    allowed = {queue_table, connection.dead_letter_table if connection else queue_table}
    if strange := sorted(tables - allowed):
        raise InvalidField("source", f"an export of table {strange[0]}", " or ".join(sorted(allowed)))
    of_dead = [e.until for e in exports if e.full and e.table != queue_table]
    dictionaries = () if connection else exported_dictionaries(spark, exports)
    views = views_of(exports, queue_table)
    return QueueFacts(export_facts(spark, exports), views, max(of_dead, default=0), dictionaries)


def views_of(exports: Sequence[Export], queue_table: str) -> Views:
    own = [export for export in exports if export.table == queue_table]
    return Views(
        tuple(sorted(export.until for export in own if export.full)),
        tuple(sorted((export.since, export.until) for export in own if export.since is not None)),
    )


def scanned_facts(spark: SparkSession, scan: TableScan) -> QueueFacts:
    """What the tables say now. They are scanned once, when the rows are asked for, and kept until then."""
    facts = scan_facts(spark, scan).persist()
    at = scan.started_at * MICROS
    return QueueFacts(facts.unionByName(second_look(facts, scan)), Views((at,)), at)


def messages(asked: Asked, known: QueueFacts, *, bodies: bool = True) -> DataFrame:
    """Every message, with how it stands or ended."""
    lives = lives_by_id(known.facts, asked.deriving(known, bodies=bodies)).where("tenant is not null")
    return _typed(asked, with_times(lives.drop(*INTERNAL)))


def attempts(asked: Asked, known: QueueFacts) -> DataFrame:
    """Every run that failed, as far as the message's history holds it."""
    lives = lives_by_id(known.facts, asked.deriving(known, bodies=False)).where("tenant is not null")
    run = with_times(lives).select("tenant", "queue", "message_id", "key", "status", F.explode("history").alias("run"))
    return run.select("tenant", "queue", "message_id", "key", "status", "run.*")


def results(asked: Asked, known: QueueFacts) -> DataFrame:
    """What finished messages gave, where results are kept."""
    lives = lives_by_id(known.facts, asked.deriving(known, bodies=False)).where("result is not null")
    return with_times(lives).select(
        "tenant", "queue", "message_id", "idempotency_key", "correlation_id", "received_at", "ended_at", "result"
    )


def dead_letters(asked: Asked, known: QueueFacts) -> DataFrame:
    """Every dead letter, whole."""
    newest = _newest(known.facts.where(F.col("kind") == FactKind.DEAD_LETTER.value))
    there = newest.where(~F.col("gone") & (F.col("at") >= known.dead_letters_from))
    deriving = asked.deriving(known, bodies=True)
    rows = there.mapInArrow(partial(_dead_letter_rows, deriving), LIFE_DDL)
    return _typed(asked, with_times(rows.drop(*INTERNAL, "status", "result")))


def audit_events(asked: Asked, known: QueueFacts) -> DataFrame:
    """Who changed what, when, and what came of it."""
    newest = _newest(known.facts.where(F.col("kind") == FactKind.AUDIT_EVENT.value)).where("not gone")
    rows = newest.mapInArrow(_audit_rows, AUDIT.ddl)
    if asked.tenant is not None:
        rows = rows.where(F.col("tenant") == asked.tenant)
    if asked.queue is not None:
        rows = rows.where(F.col("queue") == asked.queue)
    moments = [F.expr(f"timestamp_millis(nullif({name}, 0))").alias(name) for name in ("at", "ended_at")]
    return rows.select(*[column for column in rows.columns if column not in _NUMBERS], *moments)


KINDS: Mapping[str, Callable[[Asked, QueueFacts], DataFrame]] = {
    "messages": messages,
    "attempts": attempts,
    "results": results,
    "dead_letters": dead_letters,
    "audit_events": audit_events,
}


def _typed(asked: Asked, rows: DataFrame) -> DataFrame:
    if asked.definitions is None or asked.queue is None or not asked.bodies:
        return rows
    return with_typed_body(rows, asked.definitions, asked.queue, asked.json_fields)


def _newest(facts: DataFrame) -> DataFrame:
    """Of each item the newest fact."""
    newest = F.max_by(F.struct(*FACTS.names), F.struct("at", "gone")).alias("fact")
    return facts.groupBy("key").agg(newest).select("fact.*")


def _dead_letter_rows(deriving: Deriving, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        facts = (fact_of_row(*(given[name] for name in FACTS.names)) for given in batch.to_pylist())
        yield pack_lives([life_row(life) for fact in facts if (life := dead_life(deriving, fact)) is not None])


def _audit_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        events = [
            audit_event_of(fact_of_row(*(given[name] for name in FACTS.names)).item) for given in batch.to_pylist()
        ]
        yield AUDIT.batch([[getattr(event, name) for event in events] for name in AUDIT.names])
