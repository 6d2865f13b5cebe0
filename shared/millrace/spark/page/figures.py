"""The figures that a report shows, collected from the views: small, whatever the number of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millrace.spark.page.views import register_views

#: Steps of time that a plot shows, more or less, and how long they may be (seconds).
STEPS = 96
_LENGTHS = (60, 300, 900, 3_600, 4 * 3_600, 86_400, 7 * 86_400)
#: Of a key with fewer messages no percentile is shown.
ENOUGH = 10
TOP_KEYS, TOP_FAILURES, TOP_SENDERS, BREACHES = 8, 12, 12, 10

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """All that a page is made of. Times are naive and UTC."""

    title: str
    sla_s: float
    step_s: int
    first_at: Any
    last_at: Any
    totals: dict[str, float] = field(default_factory=dict)
    flow: list[Row] = field(default_factory=list)
    latency: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)
    retries: list[Row] = field(default_factory=list)
    copies: list[Row] = field(default_factory=list)
    breaches: list[Row] = field(default_factory=list)  #: by queue and kind
    worst: list[Row] = field(default_factory=list)


def collect_figures(messages: DataFrame, title: str, *, sla_s: float = 300.0) -> ReportFigures:
    """The figures of these messages. They are read several times: kept meanwhile."""
    spark = messages.sparkSession
    kept = messages.persist()
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        totals = _totals(kept)
        first, last = totals.pop("first_at"), totals.pop("last_at")
        step = step_for((last - first).total_seconds() if first and last else 0)
        register_views(kept, sla_s=sla_s, step_s=step)
        return ReportFigures(title, sla_s, step, first, last, totals, **_collected(spark))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        kept.unpersist()


def step_for(seconds: float) -> int:
    """The length of a step of time, so that about a hundred of them show the whole."""
    return next((length for length in _LENGTHS if seconds / length <= STEPS), _LENGTHS[-1])


def _totals(messages: DataFrame) -> Row:
    found = messages.agg(
        F.count("*").alias("messages"),
        *[F.count_if(F.col("status") == status).alias(status) for status in ("done", "dead", "purged", "filtered")],
        F.count_if(F.col("status").isin("ready", "scheduled", "in_flight")).alias("open"),
        F.count_if(F.col("status").isNull()).alias("unknown"),
        F.coalesce(F.sum("attempts"), F.lit(0)).alias("failed_runs"),
        F.coalesce(F.sum("write_units"), F.lit(0)).alias("write_units"),
        F.date_format(F.min("received_at"), _FORMAT).alias("first_at"),
        F.date_format(F.greatest(F.max("received_at"), F.max("ended_at")), _FORMAT).alias("last_at"),
    ).first()
    row: Row = found.asDict() if found else {}
    return row | {name: _moment(row.get(name)) for name in ("first_at", "last_at")}


#: Times cross into Python as text: a driver's own time zone must not shift them.
_FORMAT = "yyyy-MM-dd HH:mm:ss.SSS"


def _moment(text: str | None) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(text) if text else None


def _collected(spark: Any) -> dict[str, list[Row]]:
    def ask(query: str, *times: str) -> list[Row]:
        rows = [row.asDict() for row in spark.sql(query).collect()]
        return [row | {name: _moment(row[name]) for name in times} for row in rows]

    def said(name: str) -> str:
        return f"date_format({name}, '{_FORMAT}') as {name}"

    columns = "queue, fingerprint, error_type, error, messages, dead, runs"
    return {
        "flow": ask(f"select queue, {said('at')}, arrived, done, dead, other from millrace_flow order by at", "at"),
        "latency": ask("select * from millrace_latency where key is null order by queue"),
        "keys": ask(
            f"select * from millrace_latency where key is not null and known >= {ENOUGH} "
            f"order by done_p99 desc, messages desc, queue, key limit {TOP_KEYS}"
        ),
        "failures": ask(
            f"select {columns}, {said('first_at')}, {said('last_at')} from millrace_failures "
            f"order by messages desc, fingerprint limit {TOP_FAILURES}",
            "first_at",
            "last_at",
        ),
        "retries": ask("select * from millrace_retries order by queue, retries"),
        "copies": ask(
            f"select * from millrace_copies where copies > 0 order by copies desc, queue, source limit {TOP_SENDERS}"
        ),
        "breaches": ask(
            "select queue, breach, count(*) as messages from millrace_breaches group by queue, breach order by queue"
        ),
        "worst": ask(
            f"select queue, message_id, key, {said('received_at')}, breach, seconds from millrace_breaches "
            f"order by seconds desc, message_id limit {BREACHES}",
            "received_at",
        ),
    }
