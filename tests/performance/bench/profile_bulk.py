"""`python -m tests.performance.bench.profile_bulk`: the CPU that a row of a bulk enqueue costs in Python, by stage.

One process and one thread, without Spark, over rows as Spark hands them to a task: so each figure is the stage's own
CPU, and the same on a busy machine. Java's share (read, shuffle, sort, write the report) is the difference between
`cpu` and `python` in `bench_bulk`. A stage is measured with everything before it done already.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from millrace.engine.drafts import check
from millrace.engine.enqueue import enqueue_checked
from millrace.engine.queue import Queue, Runtime
from millrace.model.strict_json import parse
from millrace.spark.metered_client import units_of
from millrace.spark.row_mapping import Shape, fold_batches
from millrace.spark.rows import NAME, READ, Reported, Row, RowOutcome, report
from millrace.stores.dynamodb.minimal_client import Credentials, Signer, encode_request
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.performance.bench.bench_bulk import BATCH, DEFINITIONS, TABLES, Recorder, row

ROWS_PER_BATCH = 2_000
RUN = "profile"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    table = Table(title=f"CPU of {rows:,} rows of about 260 bytes in one Python process")
    table.add_column("stage")
    table.add_column("µs a row", justify="right")
    for stage, seconds in measure(rows).items():
        table.add_row(stage, f"{seconds / rows * 1e6:.1f}")
    Console().print(table)
    return 0


def measure(count: int) -> dict[str, float]:
    """CPU seconds of each stage, in the order in which a row goes through them."""
    shape = Shape(compile_files([("bench.millrace", DEFINITIONS)]).text.encode(), "Rows", "default", lines=True)
    batches = read_batches(count)
    recorder = Recorder()
    queue = Runtime(DynamoStore(recorder, TABLES), MemoryBlobs()).queue(  # type: ignore[arg-type]
        "default", load(shape.definitions).queue("Rows").spec
    )
    figures: dict[str, float] = {}
    timed = partial(_timed, figures)
    timed("columns to values", lambda: [batch.to_pydict() for batch in batches])
    rows: list[Row] = timed("map and check", lambda: list(fold_batches(shape, RUN, batches)))
    timed("  of it: JSON", lambda: [parse(row.draft.body) for row in rows])
    timed("  of it: check", lambda: [check(queue, row.draft, queue.now()) for row in rows])
    timed("build statements", lambda: build(queue, rows))
    timed("meter", lambda: [sum(map(units_of, statements)) for statements in recorder.batches])
    encoded = timed("encode requests", lambda: [encode_request({"Statements": s}) for s in recorder.batches])
    timed("sign", lambda: sign(encoded))
    lines = [Reported(row, RowOutcome.INSERTED) for row in rows]
    timed("report", lambda: [report(lines[n : n + 100]) for n in range(0, len(lines), 100)])
    return figures


def _timed(figures: dict[str, float], stage: str, work: Callable[[], Any]) -> Any:
    began = time.process_time()
    found = work()
    figures[stage] = time.process_time() - began
    return found


def read_batches(count: int) -> list[pa.RecordBatch]:
    """Rows as the JSON lines' reader gives them to a task, named."""
    schema = READ.schema.append(pa.field(NAME, pa.string()))
    batches = []
    for first in range(0, count, ROWS_PER_BATCH):
        numbers = range(first, min(first + ROWS_PER_BATCH, count))
        bodies = [json.dumps(row(RUN, n)).encode() for n in numbers]
        keys = [f"{RUN}-{n}" for n in numbers]
        given = {"path": ["rows.jsonl"] * len(keys), "block": [0] * len(keys), "offset": list(numbers)}
        given |= {"body": bodies, "idempotency_key": keys, NAME: keys}
        columns = [pa.array(given.get(field.name, [None] * len(keys)), field.type) for field in schema]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return batches


def build(queue: Queue, rows: list[Row]) -> None:
    for start in range(0, len(rows), BATCH):
        enqueue_checked(queue, [row.checked for row in rows[start : start + BATCH] if row.checked], queue.now())


def sign(bodies: list[bytes]) -> None:
    signer, credentials = Signer("localhost", "eu-central-1"), Credentials("key", "secret")
    for body in bodies:
        signer.headers("DynamoDB_20120810.BatchExecuteStatement", body, credentials, 0.0)


if __name__ == "__main__":
    sys.exit(main())
