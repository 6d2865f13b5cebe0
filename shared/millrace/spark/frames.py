"""Any DataFrame into a queue, from a notebook, a job or a stream's batch.

from millrace.spark import enqueue

report = enqueue(orders, queue="PaymentNotices", idempotency_key="order_id", priority=F.col("urgency") * 100)
orders.writeStream.foreachBatch(lambda batch, _: enqueue(batch, queue="PaymentNotices", idempotency_key="order_id"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession

from millrace.definitions import load
from millrace.model.clock import system_clock, system_entropy
from millrace.model.ids import Orders
from millrace.spark.actions import BulkRun, enqueue_frame
from millrace.spark.connection import TableConnection, connect
from millrace.spark.report import Report
from millrace.spark.run_settings import definitions_of, demand_classic, demand_run, is_remote, table_connection
from millrace.spark.writer import Writing

Field = str | Column

#: Where Spark tells the code of a stream's batch whose batch it is.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


def enqueue(
    frame: DataFrame,
    *,
    queue: str,
    idempotency_key: Field | None = None,
    key: Field | None = None,
    priority: Field | None = None,
    not_before: Field | None = None,
    project: Field | None = None,
    labels: Field | None = None,
    correlation_id: Field | None = None,
    content_type: Field | None = None,
    body: Field | None = None,
    tenant_of_row: Field | None = None,
    tenant: str = "default",
    run: str | None = None,
    report: str | None = None,
    definitions: str | bytes | None = None,
    connection: TableConnection | None = None,
    units_per_second: float | None = None,
    rows_per_second: float | None = None,
    on_full: Literal["wait", "stop"] = "wait",
    patience_s: float = 900.0,
    threads: int = 6,
    tasks: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Every row of a DataFrame becomes a message, once; what came of each adds up to the rows.

    A field is a column's name, a path into one (`incident.id`), any Spark SQL expression, or a Column. Without `body`
    the message is the row as JSON, each column brought to the type that the queue declares; without
    `idempotency_key` equal bodies are one message.

    `run` names the run: repeated with the same rows it changes nothing and counts the same. In `foreachBatch` it is
    the query's and the batch's id unless given, elsewhere a new name. Outcomes, rejected rows and a summary are kept
    under `report`/run where a place is given. Tables and definitions come from the session's settings
    (`spark.millrace.queue_table`, …) or the environment unless given.

    Raises InvalidField for what no message has and for a session of Spark Connect, NotFound for an unknown queue,
    StoreUnavailable where the table cannot be reached. Costs a write unit for each row and one for each KB of it; rows
    that are there already are only read.
    """
    fields: dict[str, Field | None] = {
        "body": body, "idempotency_key": idempotency_key, "key": key, "priority": priority, "not_before": not_before,
        "project": project, "labels": labels, "tenant": tenant_of_row, "correlation_id": correlation_id,
        "content_type": content_type,
    }  # fmt: skip
    spark = frame.sparkSession
    demand_classic(spark)
    run = demand_run(run or batch_run(spark) or Orders(system_clock, system_entropy).next())
    text = definitions_of(spark, definitions)
    load(text).queue(queue)
    job = BulkRun(
        spark,
        connection or table_connection(spark),
        text,
        queue,
        tenant,
        run,
        f"{report.rstrip('/')}/{run}" if report else "",
        say,
        Writing(run, threads, on_full == "stop", patience_s),
        units_per_second,
        rows_per_second,
        tasks,
    )
    # Fails at once, not in every task.
    connect(job.connection).runtime.store.get_queue_state(tenant, queue)
    return enqueue_frame(job, frame, given(fields))


def given(fields: Mapping[str, Field | None]) -> dict[str, Field]:
    """The fields that were named."""
    return {name: field for name, field in fields.items() if field is not None}


def batch_run(spark: SparkSession) -> str | None:
    """The name of the run that writes a stream's batch; None outside of one, or where Spark Connect does not tell."""
    context = None if is_remote(spark) else spark.sparkContext
    if context is None:
        return None
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    return f"{query}:{batch}" if query and batch else None
