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
from millrace.spark.metered_client import MeteredClient
from millrace.spark.row_mapping import Shape, fold_batches
from millrace.spark.rows import NAME, READ, Reported, Row, RowOutcome, report
from millrace.spark.writer import CHUNK, Writer, Writing
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient, Signer, encode_request
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.performance.bench.bench_bulk import BATCH, DEFINITIONS, TABLES, row

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


class Unsent(MinimalClient):
    """Says that everything was written; nothing leaves the process."""

    def __init__(self) -> None:
        super().__init__("http://localhost", "eu-central-1", lambda: Credentials("key", "secret"))
        self.sent: list[bytes] = []

    def _send(self, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "BatchGetItem":
            return {"Responses": {}}
        if operation != "BatchExecuteStatement":
            return {"Attributes": {"depth": {"N": "0"}, "listed": {"N": "1"}}}
        self.sent.append(encode_request(arguments))
        return {"Responses": [{} for _ in arguments["Statements"]]}


def measure(count: int) -> dict[str, float]:
    """CPU seconds of each stage, in the order in which a row goes through them; a chunk at a time, as in a task."""
    shape = Shape(compile_files([("bench.millrace", DEFINITIONS)]).text.encode(), "Rows", "default", lines=True)
    spec = load(shape.definitions).queue("Rows").spec
    client = Unsent()
    runtime = Runtime(DynamoStore(MeteredClient(client), TABLES), MemoryBlobs())  # type: ignore[arg-type]
    queue = runtime.queue("default", spec)
    figures: dict[str, float] = {}
    timed = partial(_timed, figures)
    for batch in read_batches(count):
        timed("columns to values", batch.to_pydict)
        rows: list[Row] = timed("map and check", lambda: list(fold_batches(shape, RUN, [batch])))  # noqa: B023
        timed("  of it: JSON", lambda: [parse(row.draft.body) for row in rows])  # noqa: B023
        timed("  of it: check", lambda: [check(queue, row.draft, queue.now()) for row in rows])  # noqa: B023
        timed("enqueue, but for sending", lambda: build(queue, rows))  # noqa: B023
        timed("sign", lambda: sign(client.sent))
        client.sent.clear()
        lines = [Reported(row, RowOutcome.INSERTED) for row in rows]
        timed("report", lambda: [report(lines[n : n + CHUNK]) for n in range(0, len(lines), CHUNK)])  # noqa: B023
    writer = Writer(runtime, spec, Writing(RUN))
    rows_of_task = fold_batches(shape, RUN, read_batches(count))
    timed("all of it, in the writer's threads", lambda: [report(lines) for lines in writer.write(rows_of_task)])
    return figures


def _timed(figures: dict[str, float], stage: str, work: Callable[[], Any]) -> Any:
    began = time.process_time()
    found = work()
    figures[stage] = figures.get(stage, 0.0) + time.process_time() - began
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
