"""Any DataFrame into the queue, by itself and in a stream's batches: exact, whatever is lost or repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.model.errors import InvalidField
from millrace.spark import Report, TableConnection, enqueue
from millrace.spark.frames import given
from tests.faults.proxy import BatchFault, FaultyEngine
from tests.spark.conftest import Desk

pytestmark = pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")

#: Answers lost after the write, connections cut, requests and statements throttled, Python workers killed.
FAULTS: dict[int, BatchFault] = {
    **dict.fromkeys(range(3, 200, 9), "lost"),
    **dict.fromkeys(range(5, 200, 9), "cut"),
    **dict.fromkeys(range(7, 200, 9), "throttled"),
    **dict.fromkeys(range(8, 200, 9), "some throttled"),
    11: "kill",
    40: "kill",
}  # fmt: skip


class Frames:
    """Hands DataFrames to one tenant's queues."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def connection(self, engine: str | None = None) -> TableConnection:
        tables = self.desk.tables
        return TableConnection(tables.queue, tables.dead_letters, "none", REGION, engine or self.desk.engine_url)

    def enqueue(self, frame: Any, engine: str | None = None, queue: str = "Jobs", **options: Any) -> Report:
        return enqueue(
            frame,
            queue=queue,
            tenant=self.desk.tenant,
            connection=self.connection(engine),
            definitions=str(self.desk.definitions),
            say=lambda _: None,
            **options,
        )

    def rows(self, count: int, first: int = 0) -> Any:
        rows = [(f"row-{n}", n, "x" * (n % 300)) for n in range(first, first + count)]
        return self.desk.spark.createDataFrame(rows, "id string, n int, text string")


@pytest.fixture
def frames(desk: Desk) -> Frames:
    return Frames(desk)


def counts(report: Report) -> dict[str, int]:
    return {name: count for name, count in report.counts.items() if count}


def test_only_fields_that_were_named_are_given() -> None:
    assert given({"key": "a", "body": None}) == {"key": "a"}


def test_every_row_of_a_frame_ends_once_and_a_repeat_of_the_run_counts_the_same(frames: Frames) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame = frames.rows(120).union(frames.rows(3)).union(frames.desk.spark.sql("SELECT 'row-5', -5, ''"))
    options: dict[str, Any] = {
        "idempotency_key": "id",
        "priority": F.when(F.col("n") == 7, "wrong").otherwise("high"),
        "project": F.lit("billing"),
        "run": "frame-1",
    }
    first = frames.enqueue(frame, **options)
    again = frames.enqueue(frame.repartition(7), **options)

    assert counts(first) == counts(again) == {"inserted": 119, "duplicate": 3, "conflict": 1, "rejected": 1}
    assert first.rows == 124
    entries = frames.desk.entries()
    assert len(entries) == 119
    assert {(entry.priority, entry.project) for entry in entries} == {(100, "billing")}
    bodies = [json.loads(m.body.data) for m in frames.desk.messages([entry.id for entry in entries[:5]]).values()]
    assert all(set(body) == {"id", "n", "text"} for body in bodies)
    assert [reason for _, reason, _ in first.reasons if "priority" in reason]


@pytest.mark.spark
def test_a_report_is_kept_where_a_place_is_given(frames: Frames, tmp_path: Path) -> None:
    report = frames.enqueue(
        frames.rows(10), body="text", content_type="if(n = 3, 'application/json', 'text/plain')",
        idempotency_key="id", report=str(tmp_path), run="kept",
    )  # fmt: skip
    assert counts(report) == {"inserted": 9, "rejected": 1}
    assert json.loads((tmp_path / "kept" / "summary.json").read_text())["rows"] == 10
    (reject,) = [json.loads(line) for file in (tmp_path / "kept" / "rejects").glob("*.json") for line in file.open()]
    assert (reject["raw"], "not JSON" in reject["reason"]) == ("xxx", True)


@pytest.mark.spark
def test_lost_answers_throttling_and_killed_workers_change_no_count(frames: Frames) -> None:
    with FaultyEngine(frames.desk.engine_url, lambda n, _: FAULTS.get(n, "works")) as engine:
        frame = frames.rows(900).union(frames.rows(40))
        report = frames.enqueue(frame, engine.url, idempotency_key="id", run="faulty")
    assert {"lost", "cut", "throttled", "some throttled"} <= {name for name, count in engine.done.items() if count}
    assert len(engine.killed) == 2
    assert counts(report) == {"inserted": 900, "duplicate": 40}
    entries = frames.desk.entries()
    assert (len(entries), len({entry.id for entry in entries})) == (900, 900)
    assert frames.desk.queue().state(fresh=True).depth >= 900, "credits of the killed are the sweep's to find"


@pytest.mark.spark
def test_an_ordered_queue_keeps_the_order_of_a_sorted_frame(frames: Frames) -> None:
    rows = [(f"{n}", f"acc-{n % 3}") for n in range(60)]
    frame = frames.desk.spark.createDataFrame(rows, "id string, account string").repartition(4).orderBy(
        "account", "id"
    )  # fmt: skip
    assert counts(frames.enqueue(frame, queue="Accounts", idempotency_key="id")) == {"inserted": 60}
    entries = sorted(frames.desk.entries("Accounts"), key=lambda entry: entry.place.sk.rsplit("#", 1)[1])
    messages = frames.desk.messages([entry.id for entry in entries], "Accounts")
    for account in ("acc-0", "acc-1", "acc-2"):
        order = [json.loads(messages[e.id].body.data)["id"] for e in entries if e.key == account]
        assert order == sorted(order)
        assert len(order) == 20


@pytest.mark.spark
def test_keys_that_only_the_definition_knows_fold_copies_all_the_same(frames: Frames) -> None:
    rows = [("a", 1, "sale"), ("a", 1, "sale"), ("a", 2, "sale"), ("b", 1, "noise"), ("c", None, "sale")]
    frame = frames.desk.spark.createDataFrame(rows, "id string, amount int, kind string").repartition(3)
    report = frames.enqueue(frame, queue="Typed", run="typed")
    assert counts(report) == {"inserted": 1, "duplicate": 1, "conflict": 1, "filtered": 1, "rejected": 1}
    assert counts(frames.enqueue(frame.coalesce(1), queue="Typed", run="typed")) == counts(report)


@pytest.mark.spark
def test_what_no_message_has_and_what_names_no_run_is_refused_before_anything_is_written(frames: Frames) -> None:
    with pytest.raises(InvalidField, match="run"):
        frames.enqueue(frames.rows(1), run="no/name")
    assert frames.desk.entries() == []


class Stream:
    """A stream of JSON files into a queue; each batch's report, and what happens after it."""

    def __init__(self, frames: Frames, folder: Path) -> None:
        self.frames = frames
        self.source, self.checkpoint = folder / "in", folder / "checkpoint"
        self.source.mkdir()
        self.reports: list[Report] = []
        self.after: Callable[[], None] = lambda: None

    def put(self, name: str, count: int, first: int = 0) -> None:
        lines = [json.dumps({"id": f"row-{n}", "n": n}) for n in range(first, first + count)]
        (self.source / name).write_text("\n".join(lines) + "\n")

    def run(self, engine: str | None = None) -> str:
        """All that is there, until the stream is done or broken; what broke it."""

        def write(batch: Any, _number: int) -> None:
            self.reports.append(self.frames.enqueue(batch, engine, idempotency_key="id"))
            self.after()

        rows = self.frames.desk.spark.readStream.schema("id string, n int").json(str(self.source))
        query = (
            rows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(300)
        except Exception as error:  # noqa: BLE001 (Spark 3.5 and 4 have different classes for it)
            return str(error)
        finally:
            query.stop()
        return ""


@pytest.mark.spark
def test_a_batch_that_is_repeated_after_its_driver_died_changes_nothing_and_counts_the_same(
    frames: Frames, tmp_path: Path
) -> None:
    stream = Stream(frames, tmp_path)
    stream.put("a.json", 150)

    def die() -> None:
        raise RuntimeError("between the write and the checkpoint")

    stream.after = die
    assert "between the write and the checkpoint" in stream.run()
    stream.after = lambda: None
    stream.put("b.json", 60, first=100)
    assert stream.run() == ""

    died, repeated, *later = stream.reports
    assert counts(died) == counts(repeated) == {"inserted": 150}
    assert died.run == repeated.run
    assert died.run.endswith(":0")
    assert [counts(report) for report in later] == [{"inserted": 10, "duplicate": 50}]
    assert len(frames.desk.entries()) == 160


@pytest.mark.spark
def test_a_stream_s_batch_is_exact_through_faults(frames: Frames, tmp_path: Path) -> None:
    stream = Stream(frames, tmp_path)
    stream.put("a.json", 500)
    with FaultyEngine(frames.desk.engine_url, lambda n, _: FAULTS.get(n, "works")) as engine:
        assert stream.run(engine.url) == ""
    assert len(engine.killed) >= 1
    assert [counts(report) for report in stream.reports] == [{"inserted": 500}]
    assert len(frames.desk.entries()) == 500
