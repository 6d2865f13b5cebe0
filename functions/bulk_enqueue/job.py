"""The bulk job: `spark-submit job.py --action enqueue --queue Jobs --source s3://… --format jsonl --report s3://…`.

The same file is a Glue job's script; Glue hands its job arguments over by name, so every option has one and a switch
may be given as `--dry-run true`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from functions.bulk_enqueue.arguments import parser_for, read_arguments
from millrace.definitions import load
from millrace.model.clock import system_clock, system_entropy
from millrace.model.errors import MillraceError
from millrace.model.ids import Orders
from millrace.model.message import DeadLetterFilter, DeadLetterReason
from millrace.model.replay_windows import ReplayOf
from millrace.spark.actions import BulkRun, derive_queue, enqueue_source, reconcile_source, replay_dead_letters
from millrace.spark.connection import TableConnection, connect
from millrace.spark.data.exports import find_exports
from millrace.spark.data.lake import count_by_status, merge_into_lake, read_lake, register_table
from millrace.spark.data.lake_files import lake_folder
from millrace.spark.data.read import exported_facts, read, scanned_facts
from millrace.spark.data.scans import TableScan
from millrace.spark.page.make import make_page
from millrace.spark.report import Report, keep_summary
from millrace.spark.rows import MESSAGE_FIELDS
from millrace.spark.run_settings import definitions_of
from millrace.spark.sources import Format, RowSource
from millrace.spark.time_machine import FOREVER, Chosen, replay_messages, where_sql
from millrace.spark.writer import Writing

#: Exit codes: everything ended well; rows failed (or, with --strict, were rejected); the job could not be done.
OK, INCOMPLETE, IMPOSSIBLE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Do one action and say what came of it; the exit code says whether all of it worked."""
    given = read_arguments(parser_for(), arguments)
    named = SparkSession.builder.appName(f"millrace-{given.action}-{given.queue}".rstrip("-"))
    spark = named.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        summary = perform(spark, given)
    except MillraceError as error:
        _say(f"{error.code}: {error}")
        return IMPOSSIBLE
    sys.stdout.write(f"\n{summary.as_table()}")
    if not given.dry_run:
        sys.stdout.write(f"\nThe report is in {_place(given)}.\n")
    return exit_code(summary, strict=given.strict)


def exit_code(summary: Report, *, strict: bool) -> int:
    """Whether somebody must look: rows failed, or (strict) were rejected, in conflict or missing."""
    looked_at = ("failed", "rejected", "conflict", "missing") if strict else ("failed",)
    return INCOMPLETE if any(summary.counts.get(name) for name in looked_at) else OK


def perform(spark: SparkSession, given: argparse.Namespace) -> Report:
    given.run = given.run or Orders(system_clock, system_entropy).next()
    if given.action == "lake":
        return _keep_lake(spark, given)
    if given.action == "report":
        return _make_page(spark, given)
    job = _job(spark, given)
    connect(job.connection).runtime.store.get_queue_state(job.tenant, job.queue)  # fails at once, not in every task
    match given.action:
        case "enqueue":
            return enqueue_source(job, _source(given))
        case "reconcile":
            lake = read_lake(lake_folder(spark, given.lake)) if given.lake else None
            return reconcile_source(job, _source(given), lake)
        case "derive":
            return derive_queue(job, given.source)
        case "replay" if given.of:
            return _replay_messages(job, given)
        case _:
            now = system_clock()
            return replay_dead_letters(job, _filter(given), given.source, dry_run=given.dry_run, now=now)


def _replay_messages(job: BulkRun, given: argparse.Namespace) -> Report:
    """The time machine: messages of any time, from the lake, exports or the tables."""
    chosen = Chosen(
        ReplayOf(given.of),
        given.to or given.queue,
        given.where or "",
        _millis(given.received_from) if given.received_from else 0,
        _millis(given.received_before) if given.received_before else FOREVER,
        from_past=bool(given.lake or given.source),
    )
    return replay_messages(job, _messages(job.spark, given), chosen, dry_run=given.dry_run, now=system_clock())


def _messages(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """Messages of the lake, of exports or of the tables, of the time and the queue that were asked for."""
    since = _millis(given.received_from) if given.received_from else 0
    before = _millis(given.received_before) if given.received_before else FOREVER
    if given.lake:
        at = F.unix_millis("received_at")
        found = read_lake(lake_folder(spark, given.lake)).where((at >= since) & (at < before))
        return found.where(F.col("queue") == given.queue) if given.queue else found
    return read(
        spark,
        connection=_connection(given),
        export=given.source,
        queue=given.queue or None,
        tenant=given.tenant if given.queue else None,
        units_per_s=given.units_per_second,
        received_from=since,
        received_before=before,
        now=system_clock(),
    )


def _make_page(spark: SparkSession, given: argparse.Namespace) -> Report:
    """A page of what the messages' lives show; its counts are the messages by status."""
    messages = _messages(spark, given)
    return make_page(
        spark, where_sql(messages, given.where) if given.where else messages, _place(given), given.run, given.queue,
        sla_s=given.sla_seconds,
    )  # fmt: skip


def _keep_lake(spark: SparkSession, given: argparse.Namespace) -> Report:
    """Merge exports, or the tables as they are now, into the lake; the counts are of all that it holds then."""
    lake, connection = lake_folder(spark, given.lake), _connection(given)
    if given.source:
        known = exported_facts(spark, find_exports(spark, given.source), connection)
    else:
        known = scanned_facts(spark, TableScan(connection, system_clock(), units_per_s=given.units_per_second))
    merged = merge_into_lake(lake, known, connection, given.run)
    if given.lake_table:
        register_table(lake, given.lake_table)
    summary = Report(
        "lake", given.run, given.queue, count_by_status(read_lake(lake)), details={"lake": lake.path, **asdict(merged)}
    )
    keep_summary(spark, summary, _place(given))
    return summary


def _connection(given: argparse.Namespace) -> TableConnection:
    return TableConnection(
        given.queue_table,
        given.dead_letter_table,
        given.body_bucket,
        given.region,
        given.dynamodb_endpoint,
        given.s3_endpoint,
        given.deadline,
    )


def _job(spark: SparkSession, given: argparse.Namespace) -> BulkRun:
    definitions = definitions_of(spark, given.definitions)
    load(definitions).queue(given.queue)
    return BulkRun(
        spark,
        _connection(given),
        definitions,
        given.queue,
        given.tenant,
        given.run,
        _place(given),
        None,
        Writing(given.run, given.threads, given.on_full == "stop", given.patience),
        given.units_per_second,
        given.rows_per_second,
        given.tasks,
    )


def _place(given: argparse.Namespace) -> str:
    return f"{given.report.rstrip('/')}/{given.run}"


def _source(given: argparse.Namespace) -> RowSource:
    fields = {name: value for name in MESSAGE_FIELDS if (value := getattr(given, f"field_{name}")) is not None}
    if given.table:
        return RowSource(given.table, Format.TABLE, fields)
    if given.sql:
        return RowSource(given.sql, Format.SQL, fields)
    return RowSource(given.source, Format(given.format), fields)


def _filter(given: argparse.Namespace) -> DeadLetterFilter:
    every = DeadLetterFilter()
    return DeadLetterFilter(
        failed_from=_millis(given.failed_from) if given.failed_from else every.failed_from,
        failed_before=_millis(given.failed_before) if given.failed_before else every.failed_before,
        reason=DeadLetterReason(given.reason) if given.reason else None,
        error_text=given.error_text,
        project=given.only_project,
    )


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _say(line: Any) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code:  # Glue calls any exit a failure, even one with 0.
        sys.exit(code)
