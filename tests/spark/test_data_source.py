"""`format("millrace")` on Spark 4: exact counts for a DataFrame and a stream, through faults and a driver that dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.model.errors import InvalidField
from millrace.spark.data_source import NAME, MillraceSource, RowsNotWritten, Sink, SinkCommit, register
from millrace.spark.sink import TaskCounts
from tests.faults.proxy import FaultyEngine
from tests.spark.conftest import Desk
from tests.spark.test_frames import FAULTS

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")]


class Sinks:
    """Writes into one tenant's queues by the data source."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.report = folder / "reports"
        register(desk.spark)

    def options(self, engine: str | None = None, **more: str) -> dict[str, str]:
        tables = self.desk.tables
        return {
            "queue": "Jobs", "tenant": self.desk.tenant, "idempotency_key": "id", "report": str(self.report),
            "definitions": str(self.desk.definitions), "queue_table": tables.queue,
            "dead_letter_table": tables.dead_letters, "body_bucket": "none", "region": REGION,
            "endpoint_url": engine or self.desk.engine_url, **more,
        }  # fmt: skip

    def rows(self, count: int, first: int = 0) -> Any:
        rows = [(f"row-{n}", n) for n in range(first, first + count)]
        return self.desk.spark.createDataFrame(rows, "id string, n int")

    def save(self, frame: Any, **options: Any) -> None:
        frame.write.format(NAME).mode("append").options(**self.options(**options)).save()

    def counts(self, run: str) -> dict[str, int]:
        found = json.loads((self.report / run.replace(":", "-") / "summary.json").read_text())["counts"]
        return {name: count for name, count in found.items() if count}


@pytest.fixture
def sinks(desk: Desk, tmp_path: Path) -> Sinks:
    return Sinks(desk, tmp_path)


def test_a_frame_is_saved_exactly_with_copies_in_several_tasks_and_a_repeat_counts_the_same(sinks: Sinks) -> None:
    frame = sinks.rows(150).union(sinks.rows(30)).union(sinks.desk.spark.sql("SELECT 'row-3', -3"))
    sinks.save(frame.repartition(5), run="one")
    sinks.save(frame.repartition(3), run="one")
    entries = sinks.desk.entries()
    assert len(entries) == 150
    expected = sum(sinks.counts("one").values())
    assert expected == 181
    assert sinks.counts("one")["inserted"] == 150
    # Whichever row of `row-3` came first, the table decides the others by its body.
    assert sinks.counts("one")["duplicate"] + sinks.counts("one")["conflict"] == 31


def test_lost_answers_throttling_and_killed_workers_change_no_count(sinks: Sinks) -> None:
    with FaultyEngine(sinks.desk.engine_url, lambda n, _: FAULTS.get(n, "works")) as engine:
        sinks.save(sinks.rows(700).union(sinks.rows(40)).repartition(4), engine=engine.url, run="faulty")
    assert len(engine.killed) == 2
    assert sinks.counts("faulty") == {"inserted": 700, "duplicate": 40}
    assert len(sinks.desk.entries()) == 700


def test_rows_that_would_be_lost_fail_the_write_unless_they_are_reported(sinks: Sinks) -> None:
    frame = sinks.rows(4).selectExpr("id", "if(n = 2, 'no JSON', '{}') AS body")
    with pytest.raises(Exception, match="1 rows of run strict are not in the queue"):
        sinks.save(frame, body="body", run="strict")
    sinks.save(frame, body="body", run="kept", rejected="report")
    assert sinks.counts("kept") == {"duplicate": 3, "rejected": 1}
    (reject,) = [json.loads(line) for line in (sinks.report / "kept" / "rejects.jsonl").open()]
    assert reject["raw"] == "no JSON"


def stream(sinks: Sinks, folder: Path, checkpoint: Path, **options: str) -> str:
    rows = sinks.desk.spark.readStream.schema("id string, n int").json(str(folder))
    query = (
        rows.writeStream.format(NAME)
        .options(**sinks.options(**options))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(300)
    finally:
        query.stop()
    return str(query.id)


def put(folder: Path, name: str, count: int, first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": f"row-{n}", "n": n}) for n in range(first, first + count)]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_a_driver_that_dies_between_write_and_checkpoint_repeats_its_batch_to_the_same_count(
    sinks: Sinks, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put(folder, "a.json", 120)
    query = stream(sinks, folder, checkpoint)
    first = sinks.counts(f"{query}:0")
    # What a driver leaves that died after its tasks had written and before it noted the batch as done.
    commit = checkpoint / "commits" / "0"
    commit.unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    (sinks.report / f"{query}-0" / "summary.json").unlink()
    put(folder, "b.json", 50, first=90)
    assert stream(sinks, folder, checkpoint) == query

    assert commit.exists(), "the batch was repeated, and noted this time"
    assert sinks.counts(f"{query}:0") == first == {"inserted": 120}
    assert sinks.counts(f"{query}:1") == {"inserted": 20, "duplicate": 30}
    assert len(sinks.desk.entries()) == 140


def test_a_stream_is_exact_through_faults(sinks: Sinks, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.json", 500)
    with FaultyEngine(sinks.desk.engine_url, lambda n, _: FAULTS.get(n, "works")) as engine:
        query = stream(sinks, tmp_path / "in", tmp_path / "checkpoint", engine=engine.url)
    assert len(engine.killed) >= 1
    assert sinks.counts(f"{query}:0") == {"inserted": 500}
    assert len(sinks.desk.entries()) == 500


def test_options_that_cannot_be_met_are_refused_before_anything_is_written(sinks: Sinks) -> None:
    def refused(**more: str) -> str:
        with pytest.raises(InvalidField) as error:
            Sink.from_options(sinks.options(**more), ["id", "n"])
        return str(error.value)

    assert "nope" in refused(key="nope")
    assert "ordered" in refused(queue="Accounts")
    assert "report" in refused(rejected="report", report="")
    assert "run" in refused(run="a/b")
    assert "missing" in refused(body_bucket="")


def test_overwriting_a_queue_is_refused(sinks: Sinks) -> None:
    from pyspark.sql.types import StructType

    source = MillraceSource(sinks.options())
    with pytest.raises(InvalidField, match="append"):
        source.writer(StructType(), overwrite=True)


def test_rows_that_failed_fail_the_commit(sinks: Sinks) -> None:
    sink = Sink.from_options(sinks.options(), ["id", "n"])
    task = TaskCounts("r", {"inserted": 1, "failed": 2}, {"x"}, {"queue_full": 2})
    with pytest.raises(RowsNotWritten, match="2 rows"):
        sink.commit([SinkCommit(task), None])


def test_spark_finds_the_source_by_the_name_of_a_package() -> None:
    from pyspark_millrace import DefaultSource

    assert DefaultSource is MillraceSource
    assert DefaultSource.name() == "millrace"
