"""`make bench`: the bulk job on Spark against the same PartiQL statements sent by bare processes, in one run.

Both write to one DynamoDB Local, with two Python processes of six threads and the same minimal client. The bare side
has its statements ready, as dictionaries, before the clock starts: it encodes, signs, sends and reads the answers; it
reads no file, checks nothing, shuffles nothing and reports nothing. Spark's clock runs from the call of the job to its
summary; the session is up before, and has written 2,000 rows. CPU is that of all processes of a side; `python` leaves
the Java machine out.

The sides take turns, so that a busy machine is busy for both. The last round writes a quarter of the rows: what two
sizes of one job differ by is the cost of a row, the rest is what every job costs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION, find_java
from millrace.definitions.language.compiler import compile_files
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Runtime
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine

TABLES = TableNames("millrace-bulk-queue", "millrace-bulk-dead-letters")
PROCESSES, THREADS, BATCH = 2, 6, 25
#: A bare process that failed before the start never comes to the gate: the others must not wait for it.
READY_WITHIN_S = 300
#: Of the bare statements' throughput, at least; of their CPU, at most.
AIM_RATE, AIM_CPU = 0.9, 2.5
TICKS = os.sysconf("SC_CLK_TCK")
DEFINITIONS = b"""app Bench {
  queue Rows { shards: 4 fed_by: api drained_by: api }
}
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One round of one side."""

    wall_s: float
    cpu_s: float
    python_cpu_s: float
    units: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=6, help="no round begins that would end later")
    given = parser.parse_args()
    console = Console()
    pairs: list[Pair] = []
    ends_at = time.monotonic() + given.minutes * 60
    with tempfile.TemporaryDirectory() as name, own_engine(TABLES) as url, spark_session(name) as spark:
        job = Spark(spark, Path(name), url)
        job.run(job.rows("warm", 2_000), "warm")

        def both(name: str, rows: int) -> Pair:
            console.print(f"round {name}: {rows:,} rows each ...")
            return Pair(bare(url, f"b{name}", rows), job.run(job.rows(f"r{name}", rows), f"r{name}"))

        while len(pairs) < given.rounds:
            began = time.monotonic()
            pairs.append(both(str(len(pairs) + 1), given.rows))
            if time.monotonic() + 1.25 * (time.monotonic() - began) > ends_at:
                break
        small = both("small", given.rows // 4)
    show(console, pairs, small, given.rows)
    return 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A round of both sides, one behind the other."""

    bare: Figure
    spark: Figure

    @property
    def rate(self) -> float:
        """Of the bare statements' throughput."""
        return self.bare.wall_s / self.spark.wall_s

    @property
    def cpu(self) -> float:
        """Times the bare statements' CPU."""
        return self.spark.cpu_s / self.bare.cpu_s


@contextmanager
def spark_session(folder: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ.update({"AWS_REGION": REGION, "PYSPARK_PYTHON": sys.executable})
    os.environ["JAVA_HOME"] = str(Path(find_java()).resolve().parents[1])
    session = (
        SparkSession.builder.master(f"local[{PROCESSES},4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", folder)
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def row(name: str, n: int) -> dict[str, Any]:
    return {"id": f"{name}-{n}", "account": n % 997, "event": "invoice.paid", "note": "x" * 200}


class Spark:
    """The bulk job, called as its command line calls it."""

    def __init__(self, spark: Any, folder: Path, url: str) -> None:
        self.spark = spark
        self.folder = folder
        self.url = url
        self.definitions = folder / "definitions.json"
        self.definitions.write_text(compile_files([("bench.millrace", DEFINITIONS)]).text)

    def rows(self, name: str, count: int) -> Path:
        path = self.folder / f"{name}.jsonl"
        with path.open("w") as file:
            file.writelines(json.dumps(row(name, n)) + "\n" for n in range(count))
        return path

    def run(self, source: Path, name: str) -> Figure:
        from functions.bulk_enqueue.arguments import parser_for, read_arguments
        from functions.bulk_enqueue.job import perform

        options = [
            *("--queue", "Rows", "--source", str(source), "--idempotency-key", "id", "--run", name),
            *("--report", str(self.folder / "reports"), "--definitions", str(self.definitions)),
            *("--queue-table", TABLES.queue, "--dead-letter-table", TABLES.dead_letters, "--body-bucket", "none"),
            *("--region", REGION, "--dynamodb-endpoint", self.url, "--threads", str(THREADS)),
        ]
        cpu, python = cpu_of_family()
        began = time.perf_counter()
        summary = perform(self.spark, read_arguments(parser_for(), options))
        wall = time.perf_counter() - began
        cpu_after, python_after = cpu_of_family()
        if summary.counts["inserted"] != summary.rows:
            raise SystemExit(f"not every row was inserted: {summary.counts}")
        return Figure(wall, cpu_after - cpu, python_after - python, summary.spent["units"])


def bare(url: str, name: str, count: int) -> Figure:
    """The statements that an enqueue sends, and nothing else, from as many processes and threads."""
    share = count // PROCESSES
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    workers = [
        context.Process(target=send_bare, args=(url, name, number * share, share, gate, answers))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    gate.wait(READY_WITHIN_S)
    began = time.perf_counter()
    cpu = sum(answers.get() for _ in workers)
    wall = time.perf_counter() - began
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit("a bare process failed")
    return Figure(wall, cpu, cpu)


class Recorder:
    """Takes down the batches that the library would send, without sending them."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []

    def batch_execute_statement(self, *, Statements: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.batches.append(Statements)
        return {"Responses": [{} for _ in Statements]}

    def update_item(self, **_: Any) -> dict[str, Any]:
        return {"Attributes": {"depth": {"N": "0"}}}

    def transact_write_items(self, **_: Any) -> dict[str, Any]:
        """The queue is entered into the list of queues once, before its first message."""
        return {}


def send_bare(url: str, name: str, first: int, count: int, gate: Any, answers: Any) -> None:
    recorder = Recorder()
    queue = Runtime(DynamoStore(recorder, TABLES), MemoryBlobs()).queue("bare", QueueSpec("Rows", shards=4))  # type: ignore[arg-type]
    for start in range(first, first + count, BATCH):
        rows = [row(name, n) for n in range(start, min(start + BATCH, first + count))]
        enqueue_all(queue, [Draft(json.dumps(r).encode(), idempotency_key=r["id"], run=name) for r in rows])
    # Entry and message batches follow each other, as the protocol has them.
    pairs = [recorder.batches[n : n + 2] for n in range(0, len(recorder.batches), 2)]
    client = minimal_client({**CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL_DYNAMODB": url})

    def send(pair: list[list[dict[str, Any]]]) -> None:
        for statements in pair:
            answer: Any = client.batch_execute_statement(Statements=statements)  # type: ignore[arg-type]
            if any("Error" in part for part in answer["Responses"]):
                raise SystemExit(f"a bare statement failed: {answer['Responses'][0]}")

    gate.wait()
    cpu = time.process_time()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(send, pairs))
    finally:  # whoever waits for the figure must hear of a failure too
        answers.put(time.process_time() - cpu)


def cpu_of_family() -> tuple[float, float]:
    """CPU seconds of this process and all that it started: of all, and of those that are not Java."""
    parents: dict[int, int] = {}
    times: dict[int, tuple[float, bool]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue
        pid, fields = int(stat.parts[2]), tail.split()
        parents[pid] = int(fields[1])
        times[pid] = (sum(map(int, fields[11:15])) / TICKS, "java" in head)
    own = os.getpid()
    total = python = 0.0
    for pid, (seconds, java) in times.items():
        ancestor, engine = pid, False
        while ancestor not in (own, 0):
            engine = engine or "DynamoDBLocal" in _command(ancestor)
            ancestor = parents.get(ancestor, 0)
        if ancestor == own and not engine:
            total += seconds
            python += 0.0 if java else seconds
    return total, python


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def show(console: Console, pairs: list[Pair], small: Pair, rows: int) -> None:
    table = Table(
        title=f"{rows:,} rows of about 260 bytes into DynamoDB Local; {PROCESSES} processes, {THREADS} threads each; "
        f"median of {len(pairs)} alternating rounds"
    )
    for title in ("", "rows/s", "of bare", "CPU s per 10,000 rows", "of it Python", "of bare"):
        table.add_column(title, justify="left" if not title else "right")
    rate, cpu = median(pair.rate for pair in pairs), median(pair.cpu for pair in pairs)
    sides = {"millrace on Spark": [pair.spark for pair in pairs], "bare PartiQL": [pair.bare for pair in pairs]}
    ratios = {"millrace on Spark": (rate, cpu), "bare PartiQL": (1.0, 1.0)}
    for side, found in sides.items():
        table.add_row(
            side,
            f"{rows / median(figure.wall_s for figure in found):,.0f}",
            f"{ratios[side][0]:.2f}",
            f"{median(figure.cpu_s for figure in found) / rows * 10_000:.2f}",
            f"{median(figure.python_cpu_s for figure in found) / rows * 10_000:.2f}",
            f"{ratios[side][1]:.2f}",
        )
    console.print(table)
    console.print("rounds: " + ", ".join(f"{pair.rate:.2f} / {pair.cpu:.2f}" for pair in pairs) + " (rate / CPU)")
    few, all_ = small.spark, sides["millrace on Spark"][-1]
    of_a_row = (all_.cpu_s - few.cpu_s) / (rows - rows // 4)
    python = (all_.python_cpu_s - few.python_cpu_s) / (rows - rows // 4)
    fixed = all_.cpu_s - of_a_row * rows
    console.print(
        f"a row: {of_a_row * 1e6:.0f} µs of CPU, {python * 1e6:.0f} of it Python; a job: {fixed:.1f} s more; "
        f"with {rows // 4:,} rows: {small.rate:.2f} of the rate, {small.cpu:.2f} times the CPU"
    )
    units = all_.units / rows
    console.print(f"write units per row: {units:.2f} (1 for the entry, 1 for each KB of the message)")
    met = rate >= AIM_RATE and cpu <= AIM_CPU
    console.print(
        f"aim: at least {AIM_RATE} of the rate, at most {AIM_CPU} times the CPU: {'met' if met else 'NOT met'} "
        f"({rate:.2f}, {cpu:.2f})"
    )


if __name__ == "__main__":
    sys.exit(main())
