"""A queue that follows a folder: work items are markdown files, and what is ready among them is queued.

    ready = its file says pending, every dependency's file says done, and it is not in the queue already

The files are the truth. A dependency that no file defines blocks and is reported; so does a cycle; an id that two files
claim is refused. An item whose message has ended while its file still says pending is not queued again by itself: its
worker may be about to write the file. To run it again, give it another `revision`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millrace.items.fields import DONE, PENDING, ItemState, cycles_of, item_fields
from millrace.spark.rows import READ, Columns

#: Edges that the driver holds to look for cycles; above it they are not looked for, and the summary says so.
MAX_EDGES = 2_000_000


_ITEM = Columns(
    path="string", raw="binary", value="string", id="string", status="string", depends_on="array<string>",
    idempotency_key="string", priority="string", project="string", labels="string", problem="string",
)  # fmt: skip
_NAMES = _ITEM.names


def read_fields(items: DataFrame) -> DataFrame:
    """The fields of every item of `read_items`, checked."""
    return items.mapInArrow(read_item_batches, _ITEM.ddl)


def derive_states(read: DataFrame) -> DataFrame:
    """Every item of `read_fields` with its `state` and, where it is held back or refused, the `reason`."""
    named = read.where("problem is null")
    twice = named.groupBy("id").agg(F.sort_array(F.collect_list("path")).alias("files")).where("size(files) > 1")
    unique = named.join(twice, "id", "left_anti")
    edges = unique.select("id", F.explode("depends_on").alias("needs"))
    known = unique.select(F.col("id").alias("needs"), F.col("status").alias("its_status"))
    held = (
        edges.join(known, "needs", "left")
        .where(f"its_status is null or its_status != '{DONE}'")
        .groupBy("id")
        .agg(
            F.sort_array(F.collect_set(F.when(F.col("its_status").isNull(), F.col("needs")))).alias("missing"),
            F.sort_array(F.collect_set(F.when(F.col("its_status").isNotNull(), F.col("needs")))).alias("open"),
        )
    )
    missing, open_ = F.col("missing"), F.col("open")
    state = (
        F.when(F.col("status") == DONE, ItemState.DONE.value)
        .when(F.col("status") != PENDING, ItemState.OTHER.value)
        .when(F.size(missing) > 0, ItemState.MISSING_DEPENDENCY.value)
        .when(F.size(open_) > 0, ItemState.BLOCKED.value)
        .otherwise(ItemState.READY.value)
    )
    pending = F.col("status") == PENDING
    reason = F.when(
        pending & (F.size(missing) > 0), F.concat(F.lit("no file defines "), F.concat_ws(", ", missing))
    ).when(pending & (F.size(open_) > 0), F.concat(F.lit("waits for "), F.concat_ws(", ", open_)))
    stated = unique.join(held, "id", "left").withColumn("state", state).withColumn("reason", reason)
    others = F.expr("array_remove(files, path)")
    doubled = named.join(twice, "id").select(
        *_NAMES,
        F.lit(ItemState.DUPLICATE.value).alias("state"),
        F.concat(F.lit("duplicate_id: the id is also in "), F.concat_ws(", ", others)).alias("reason"),
    )
    malformed = read.where("problem is not null").select(
        *_NAMES, F.lit(ItemState.MALFORMED.value).alias("state"), F.col("problem").alias("reason")
    )
    return stated.select(*_NAMES, "state", "reason").unionByName(doubled).unionByName(malformed)


def ready_rows(states: DataFrame) -> DataFrame:
    """Items that are ready, and those that are refused, as rows for the queue."""
    refused = F.col("state").isin(ItemState.MALFORMED.value, ItemState.DUPLICATE.value)
    rows = states.where(refused | (F.col("state") == ItemState.READY.value))
    own = ("path", "raw", "idempotency_key", "priority", "project", "labels")
    given: Mapping[str, Any] = {
        "block": F.lit(0),
        "offset": F.lit(0),
        "body": F.col("value"),
        "problem": F.when(refused, F.col("reason")),
        **{name: F.col(name) for name in own},
    }
    nothing = F.lit(None)
    return rows.select(*(given.get(name, nothing).cast(kind).alias(name) for name, kind in READ.kinds.items()))


def find_cycles(states: DataFrame) -> list[list[str]] | str:
    """Items that wait for each other, each cycle once, from its smallest id on."""
    waiting = states.where(F.col("state").isin(ItemState.BLOCKED.value, ItemState.MISSING_DEPENDENCY.value))
    edges = waiting.select("id", F.explode("depends_on").alias("needs"))
    edges = edges.join(waiting.select(F.col("id").alias("needs")), "needs", "left_semi").select("id", "needs")
    found = edges.limit(MAX_EDGES + 1).collect()
    if len(found) > MAX_EDGES:
        return f"not looked for: more than {MAX_EDGES:,} open dependencies"
    needs: dict[str, list[str]] = {}
    for id_, need in found:
        needs.setdefault(id_, []).append(need)
    return cycles_of(needs)


def read_item_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The fields of work items, checked, on an executor."""
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_item(given) for given in batch.to_pylist()], schema=_ITEM.schema)


def _item(given: Mapping[str, Any]) -> dict[str, Any]:
    row = {"path": given["path"], "raw": given["raw"], "value": given["value"], "problem": given["problem"]}
    if given["problem"]:
        return row
    try:
        fields = item_fields(json.loads(given["value"]))
    except ValueError as error:
        return row | {"problem": f"invalid_message: {error}"}
    return row | {
        "id": fields.id,
        "status": fields.status,
        "depends_on": list(fields.depends_on),
        "idempotency_key": fields.idempotency_key,
        "priority": fields.priority,
        "project": fields.project,
        "labels": None if fields.labels is None else json.dumps(fields.labels),
    }
