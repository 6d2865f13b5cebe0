"""Rows into the queue by a real Spark job: the report equals the table, whatever goes wrong."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.finish import ack
from millrace.engine.status import MessageStatus, status
from tests.faults.proxy import BatchFault, FaultyEngine
from tests.spark.conftest import Desk, Ran, tally

# Spark's own: distutils, and sockets to the JVM that end with the process.
pytestmark = pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")


def rows_of(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"row-{n}", "n": n, "text": "x" * (n % 700)} for n in range(first, first + count)]


def test_every_row_ends_once_and_the_report_equals_the_table(desk: Desk) -> None:
    source = desk.lines(
        "rows.jsonl",
        [*rows_of(300), {"id": "row-7", "n": 7, "text": "x" * 7}, {"id": "row-8", "n": -8}, "no JSON", "", {"n": 1}],
    )
    ran = desk.run("--source", source, "--idempotency-key", "id")

    # The row without an id gets its content's key.
    assert ran.counts == {"inserted": 301, "duplicate": 1, "conflict": 1, "rejected": 1}
    assert ran.summary["rows"] == 304
    assert ran.code == 0
    entries = desk.entries()
    inserted = {row["message_id"] for row in ran.outcomes() if row["outcome"] == "inserted"}
    assert {entry.id for entry in entries} == inserted
    assert len(entries) == 301
    assert {message.run for message in desk.messages(list(inserted)).values()} == {ran.summary["run"]}
    assert desk.queue().state(fresh=True).depth == 301


@pytest.mark.spark
def test_a_second_run_inserts_nothing_and_the_same_run_counts_its_own(desk: Desk) -> None:
    source = desk.lines("rows.jsonl", rows_of(600))
    first = desk.run("--source", source, "--idempotency-key", "id", "--run", "first")
    second = desk.run("--source", source, "--idempotency-key", "id", "--run", "second")
    again = desk.run("--source", source, "--idempotency-key", "id", "--run", "first")

    assert first.counts == again.counts == {"inserted": 600}
    assert second.counts == {"duplicate": 600}
    assert len(desk.entries()) == 600
    # The tasks noticed that the rows are there already, and only read.
    assert first.summary["spent"]["units"] == 1200
    assert second.summary["spent"]["units"] == again.summary["spent"]["units"] == 0
    assert desk.queue().state(fresh=True).depth == 600


def test_what_is_in_flight_or_done_is_not_touched(desk: Desk) -> None:
    desk.run("--source", desk.lines("old.jsonl", rows_of(60)), "--idempotency-key", "id")
    queue = desk.queue()
    held = claim(queue, owner="w", limit=40, lease_ms=600_000).claims
    assert ack(queue, [c.entry for c in held[:20]], [b"{}"] * 20) == [None] * 20
    before = {entry.id: entry for entry in desk.entries()}
    old = desk.messages(list(before) + [c.entry.id for c in held[:20]])

    ran = desk.run("--source", desk.lines("all.jsonl", rows_of(100)), "--idempotency-key", "id")

    assert ran.counts == {"inserted": 40, "duplicate": 60}
    after = {entry.id: entry for entry in desk.entries()}
    assert {id_: after[id_] for id_ in before} == before, "an entry in flight or waiting was changed"
    assert desk.messages(list(old)) == old
    assert not {c.entry.id for c in held[:20]} & set(after), "a done message came back"
    # And the claims that were held still count.
    assert ack(queue, [c.entry for c in held[20:]], [b"{}"] * 20) == [None] * 20


@pytest.mark.spark
def test_rejected_rows_are_kept_with_their_place_in_the_file(desk: Desk, spark: Any) -> None:
    """Spark cuts the file into parts; the offsets are from its beginning all the same."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4000")
    try:
        lines = [json.dumps(row) if row["n"] % 50 else f"bad {row['n']} é" for row in rows_of(200)]
        source = desk.lines("rows.jsonl", lines)
        ran = desk.run("--source", source, "--idempotency-key", "id", "--strict")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert ran.code == 1
    assert ran.counts == {"inserted": 196, "rejected": 4}
    data = Path(source).read_bytes()
    rejects = ran.rejects()
    assert len(rejects) == 4
    for reject in rejects:
        raw = reject["raw"].encode()
        assert raw.startswith(b"bad ")
        assert data[reject["offset"] :].startswith(raw + b"\n")
        assert reject["file"].endswith("rows.jsonl")
        assert "not JSON" in reject["reason"]


@pytest.mark.spark
def test_the_queue_s_own_type_and_filter_decide(desk: Desk) -> None:
    rows = [
        {"id": "a", "amount": 1, "kind": "sale"},
        {"id": "b", "amount": "much", "kind": "sale"},
        {"id": "c", "amount": 1, "kind": "noise"},
        {"id": "a", "amount": 1, "kind": "sale"},
    ]
    ran = desk.run("--source", desk.lines("rows.jsonl", rows), queue="Typed")
    assert ran.counts == {"inserted": 1, "duplicate": 1, "filtered": 1, "rejected": 1}
    (reject,) = ran.rejects()
    assert "amount: expected an int" in reject["reason"]
    (left_out,) = [row["message_id"] for row in ran.outcomes() if row["outcome"] == "filtered"]
    assert status(desk.queue("Typed"), left_out).status is MessageStatus.FILTERED
    found = desk.run("--source", desk.lines("rows.jsonl", rows), "--action", "reconcile", queue="Typed")
    assert found.counts == {"queued": 2, "filtered": 1, "rejected": 1}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_are_brought_to_the_declared_types_or_rejected(desk: Desk, spark: Any, kind: str) -> None:
    rows = [("a", "4388", "sale"), ("b", "much", "sale"), ("17", "-5", "sale")]
    frame = spark.createDataFrame(rows, "id string, amount string, kind string")
    getattr(frame.write.option("header", "true"), kind)(str(desk.folder / kind))
    ran = desk.run("--source", str(desk.folder / kind), "--format", kind, queue="Typed")
    assert ran.counts == {"inserted": 2, "rejected": 1}
    bodies = [json.loads(m.body.data) for m in desk.messages([e.id for e in desk.entries("Typed")]).values()]
    assert {(body["id"], body["amount"]) for body in bodies} == {("a", 4388), ("17", -5)}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "csv", "markdown"])
def test_other_sources(desk: Desk, spark: Any, kind: str) -> None:
    folder = desk.folder / kind
    if kind == "parquet":
        spark.createDataFrame(
            [(f"p{n}", n, ["a", "b"], None if n == 3 else "high") for n in range(20)],
            "id string, n int, tags array<string>, urgency string",
        ).repartition(2).write.parquet(str(folder))
    elif kind == "csv":
        folder.mkdir()
        text = "id,n,tags,urgency\n" + "".join(f'p{n},{n},"a,b",{"" if n == 3 else "high"}\n' for n in range(19))
        (folder / "rows.csv").write_text(text + 'p19,"two\nlines, ""quoted""","a,b",high\ntoo,short\n')
    else:
        folder.mkdir()
        for n in range(20):
            urgency = "" if n == 3 else "urgency: high\n"
            (folder / f"{n}.md").write_text(f"---\nid: p{n}\nn: {n}\ntags: [a, b]\n{urgency}---\nDo it.\n")
        (folder / "bad.md").write_text("no front matter")
    ran = desk.run(
        *("--source", str(folder), "--format", kind, "--idempotency-key", "id", "--labels", "tags"),
        *("--priority", "urgency", "--project", "'imports'"),
    )
    assert ran.counts == {"inserted": 20} | ({"rejected": 1} if kind != "parquet" else {})
    entries = {entry.id: entry for entry in desk.entries()}
    assert {entry.labels for entry in entries.values()} == {("a", "b")}
    assert {entry.project for entry in entries.values()} == {"imports"}
    assert sorted(entry.priority for entry in entries.values()) == [50] + [100] * 19
    bodies = [json.loads(m.body.data) for m in desk.messages(list(entries)).values()]
    assert {body["id"] for body in bodies} == {f"p{n}" for n in range(20)}
    if kind == "csv":
        assert 'two\nlines, "quoted"' in {body["n"] for body in bodies}


@pytest.mark.spark
def test_an_ordered_queue_keeps_the_order_of_the_input(desk: Desk) -> None:
    rows = [{"id": f"{n}", "account": f"acc-{n % 3}"} for n in range(120)]
    ran = desk.run(
        "--source", desk.lines("rows.jsonl", rows), "--idempotency-key", "id", "--key", "account", queue="Accounts"
    )
    assert ran.counts == {"inserted": 120}
    entries = sorted(desk.entries("Accounts"), key=lambda entry: entry.place.sk.rsplit("#", 1)[1])
    messages = desk.messages([entry.id for entry in entries], "Accounts")
    for account in ("acc-0", "acc-1", "acc-2"):
        order = [int(json.loads(messages[e.id].body.data)["id"]) for e in entries if e.key == account]
        assert order == sorted(order)
        assert len(order) == 40


@pytest.mark.spark
def test_a_full_queue_stops_the_run_or_holds_it_up(desk: Desk) -> None:
    source = desk.lines("rows.jsonl", rows_of(100))
    stopped = desk.run("--source", source, "--idempotency-key", "id", "--on-full", "stop", "--run", "s", queue="Tight")
    assert stopped.code == 1
    assert stopped.counts == {"inserted": 40, "failed": 60}
    assert len(desk.entries("Tight")) == 40
    assert any("queue_full" in reason["reason"] for reason in stopped.summary["reasons"])

    queue = desk.queue("Tight")
    done: list[str] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            claims = claim(queue, owner="w", limit=25, lease_ms=60_000).claims
            ack(queue, [c.entry for c in claims], [b"{}"] * len(claims))
            done.extend(c.entry.id for c in claims)
            over.wait(0.01)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        waited = desk.run(
            "--source", source, "--idempotency-key", "id", "--on-full", "wait", "--run", "s", queue="Tight"
        )
    finally:
        over.set()
        worker.join()
    assert waited.counts == {"inserted": 100}, "with the same run's name the first forty are its own"
    assert len(set(done)) == len(done)
    assert set(done) | {entry.id for entry in desk.entries("Tight")} == {row["message_id"] for row in waited.outcomes()}


def whole(desk: Desk, ran: Ran, rows: int) -> None:
    """The report is the table: no row lost, none twice, none half-written."""
    assert ran.summary["rows"] == rows
    inserted = {row["message_id"] for row in ran.outcomes() if row["outcome"] == "inserted"}
    assert {entry.id for entry in desk.entries()} == inserted
    assert len(inserted) == tally(ran.outcomes())["inserted"]


@pytest.mark.spark
def test_answers_are_lost_after_the_write_happened(desk: Desk) -> None:
    faults: dict[int, BatchFault] = {n: "lost" if n % 2 else "cut" for n in range(3, 400, 5)}
    with FaultyEngine(desk.engine_url, lambda n, _: faults.get(n, "works")) as engine:
        source = desk.lines("rows.jsonl", [*rows_of(1500), *rows_of(50)])
        ran = desk.run("--source", source, "--idempotency-key", "id", engine=engine.url)
    assert engine.done["lost"] > 5
    assert engine.done["cut"] > 5
    assert ran.counts == {"inserted": 1500, "duplicate": 50}
    whole(desk, ran, 1550)


@pytest.mark.spark
def test_the_table_throttles_whole_requests_and_single_statements(desk: Desk) -> None:
    faults: dict[int, BatchFault] = {n: "throttled" if n % 2 else "some throttled" for n in range(2, 400, 3)}
    with FaultyEngine(desk.engine_url, lambda n, _: faults.get(n, "works")) as engine:
        source = desk.lines("rows.jsonl", rows_of(1000))
        ran = desk.run("--source", source, "--idempotency-key", "id", "--units-per-second", "100000", engine=engine.url)
    assert engine.done["throttled"] > 5
    assert engine.done["some throttled"] > 5
    assert ran.counts == {"inserted": 1000}
    assert ran.summary["spent"]["throttled"] > 100
    whole(desk, ran, 1000)


@pytest.mark.spark
def test_python_workers_are_killed_in_the_middle_of_their_rows(desk: Desk) -> None:
    with FaultyEngine(desk.engine_url, lambda n, _: "kill" if n in (9, 30) else "works") as engine:
        source = desk.lines("rows.jsonl", [*rows_of(1200), *rows_of(100)])
        ran = desk.run("--source", source, "--idempotency-key", "id", engine=engine.url)
    assert len(engine.killed) == 2
    assert ran.counts == {"inserted": 1200, "duplicate": 100}
    whole(desk, ran, 1300)


@pytest.mark.spark
def test_a_table_that_never_answers_fails_rows_and_drops_none(desk: Desk) -> None:
    """Commits of some rows are throttled for ever; the rest goes in, and a later run of the name completes it."""
    unlucky = {f"row-{n}" for n in range(0, 300, 10)}

    def plan(_: int, statements: list[dict[str, Any]]) -> BatchFault:
        text = json.dumps(statements)
        return "throttled" if '"bulk"' in text and any(f'"{name}"' in text for name in unlucky) else "works"

    source = desk.lines("rows.jsonl", rows_of(300))
    with FaultyEngine(desk.engine_url, plan) as engine:
        ran = desk.run(
            *("--source", source, "--idempotency-key", "id", "--run", "r", "--patience", "0.1", "--deadline", "0.2"),
            engine=engine.url,
        )
    assert ran.code == 1
    assert ran.counts["failed"] >= 30
    assert sum(ran.counts.values()) == 300
    whole(desk, ran, 300)
    again = desk.run("--source", source, "--idempotency-key", "id", "--run", "r")
    assert again.counts == {"inserted": 300}


@pytest.mark.spark
def test_two_runs_at_once_share_the_rows_between_them(desk: Desk) -> None:
    source = desk.lines("rows.jsonl", rows_of(1500))
    ran: dict[str, Ran] = {}

    def go(name: str) -> None:
        ran[name] = desk.run("--source", source, "--idempotency-key", "id", "--run", name)

    threads = [threading.Thread(target=go, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [ran[name].counts for name in ("one", "two")]
    assert sum(count.get("inserted", 0) for count in counts) == 1500
    assert all(count.get("inserted", 0) + count.get("duplicate", 0) == 1500 for count in counts)
    owners = {m.id: m.run for m in desk.messages([entry.id for entry in desk.entries()]).values()}
    for name in ("one", "two"):
        own = {row["message_id"] for row in ran[name].outcomes() if row["outcome"] == "inserted"}
        assert own == {id_ for id_, run in owners.items() if run == name}
    assert len(owners) == 1500
