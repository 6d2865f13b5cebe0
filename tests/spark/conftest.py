"""A real Spark session, and jobs run as their users run them."""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION, find_java
from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from millrace.engine.queue import Queue, Runtime
from millrace.model.message import Entry, Message
from millrace.spark.run_settings import TABLES
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Bench, Clock
from tests.spark.data.world import World
from tests.spark.task import Task

#: Spark 3.5 has no data sources in Python: nothing of these files can be imported there.
NEW_IN_4 = ["test_connect.py", "test_data_source.py", "test_source_reader.py"]
collect_ignore = [] if find_spec("pyspark.sql.datasource") else NEW_IN_4
SOURCE = Path(__file__).with_name("bulk.millrace")


@pytest.fixture(scope="session")
def definitions() -> bytes:
    compiled = compile_files([(SOURCE.name, SOURCE.read_bytes())])
    return compiled.text.encode()


@pytest.fixture(autouse=True)
def no_tables_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local stack that another test ran in this process leaves its tables in the environment."""
    for name in TABLES.values():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def closed_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark leaves sockets to the collector, which closes them under a warning: here, and not in some later test."""
    yield
    if "spark" in request.fixturenames:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores, and tasks that are tried four times, as on a cluster."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(Path(find_java()).resolve().parents[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def world(engine_client: Any, engine_url: str, definitions: bytes, tmp_path: Path, clock: Clock) -> World:
    return World(engine_client, engine_url, definitions, tmp_path, clock)


@dataclass(frozen=True)
class Ran:
    """What a job left behind."""

    code: int
    place: Path
    summary: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        return {name: count for name, count in self.summary["counts"].items() if count}

    def outcomes(self) -> list[dict[str, Any]]:
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = pq.read_table(self.place / "outcomes").to_pylist()
        return rows

    def rejects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for file in (self.place / "rejects").glob("*.json") for line in file.open()]


class Desk:
    """Runs jobs against one tenant's queues and looks into the table."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        engine_url: str,
        tables: TableNames,
        store: DynamoStore,
        tenant: str,
        text: bytes,
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.engine_url = engine_url
        self.tables = tables
        self.tenant = tenant
        self.definitions = folder / "definitions.json"
        self.definitions.write_bytes(text)
        self.runtime = Runtime(store, MemoryBlobs())
        self._runs = itertools.count(1)

    def run(self, *options: str, queue: str = "Jobs", engine: str | None = None) -> Ran:
        """The job, by its own command line."""
        from functions.bulk_enqueue.job import main

        name = next((options[n + 1] for n, option in enumerate(options) if option == "--run"), f"run{next(self._runs)}")
        place = self.folder / "reports" / name
        given = [
            *("--queue", queue, "--tenant", self.tenant, "--run", name, "--report", str(place.parent)),
            *("--definitions", str(self.definitions), "--region", REGION),
            *("--queue-table", self.tables.queue, "--dead-letter-table", self.tables.dead_letters),
            *("--body-bucket", "none", "--dynamodb-endpoint", engine or self.engine_url),
        ]
        code = main([*given, *options])
        summary = place / "summary.json"
        return Ran(code, place, json.loads(summary.read_text()) if summary.exists() else {})

    def queue(self, name: str = "Jobs") -> Queue:
        return self.runtime.queue(self.tenant, load(str(self.definitions)).queue(name).spec)

    def entries(self, name: str = "Jobs") -> list[Entry]:
        """What is in the queue: entries whose message is there and their own."""
        queue = self.queue(name)
        entries: list[Entry] = []
        for pk in queue.partitions():
            after: str | None = ""
            while after is not None:
                page = queue.store.read_lane(pk, after or " ", "~", 500)
                entries += page.items
                after = page.next
        messages = queue.store.get_messages([entry.id for entry in entries])
        return [entry for entry in entries if (m := messages.get(entry.id)) and m.nonce == entry.nonce]

    def messages(self, ids: Sequence[str], name: str = "Jobs") -> dict[str, Message]:
        return self.queue(name).store.get_messages(ids)

    def lines(self, name: str, rows: Sequence[Any]) -> str:
        """A file of JSON lines; texts are written as they are."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return str(path)


@pytest.fixture
def desk(
    spark: Any,
    tmp_path: Path,
    engine_url: str,
    tables: TableNames,
    engine_client: Any,
    tenant: str,
    definitions: bytes,
) -> Desk:
    return Desk(spark, tmp_path, engine_url, tables, DynamoStore(engine_client, tables), tenant, definitions)


def tally(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(row["outcome"] for row in rows)


Build = Callable[..., str]


@pytest.fixture
def task(bench: Bench) -> Task:
    return Task(bench)


@pytest.fixture
def memory_task(memory_store: MemoryStore, clock: Clock, tenant: str) -> Task:
    return Task(Bench(memory_store, clock, tenant))
