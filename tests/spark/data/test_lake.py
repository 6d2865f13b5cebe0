"""The lake against an oracle in plain Python: overlapping, doubled and late exports, scans, erasure, TTL, kills."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from functions.bulk_enqueue import job
from infra.local.dynamodb import REGION
from millrace.model.errors import StoreUnavailable
from millrace.spark.actions import recall
from millrace.spark.data import lake_files
from millrace.spark.data.exports import find_exports
from millrace.spark.data.lake import Merged, count_by_status, merge_into_lake, read_lake, register_table
from millrace.spark.data.lake_files import LakeFolder, lake_folder
from millrace.spark.data.read import exported_facts, scanned_facts
from millrace.spark.data.scans import TableScan
from tests.spark.data.crashes import Killed, killed_after
from tests.spark.data.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
DAY = 86_400


def merge(lake: LakeFolder, world: World, *paths: str, run: str = "run") -> Merged:
    known = exported_facts(lake.spark, find_exports(lake.spark, paths), world.connection)
    return merge_into_lake(lake, known, world.connection, run)


def contents(lake: LakeFolder) -> dict[str, tuple[Any, ...]]:
    """What the lake says of every message, by its id."""
    columns = ("message_id", "status", "queue", "attempts", "body")
    found = [tuple(row) for row in read_lake(lake).select(*columns).collect()]
    assert len({row[0] for row in found}) == len(found), "a message twice"
    return {row[0]: (*row[1:4], bytes(row[4] or b"")) for row in found}


def oracle(world: World) -> dict[str, tuple[Any, ...]]:
    known = [one for one in world.known.values() if not one.erased]
    return {one.id: (one.status_at(world.clock.now), one.queue, one.failures, one.body) for one in known}


def options(world: World, folder: Path) -> list[str]:
    """What every call of the job needs."""
    given = ["--lake", str(folder / "lake"), "--report", str(folder / "reports"), "--body-bucket", "none"]
    given += ["--queue-table", world.names.queue, "--dead-letter-table", world.names.dead_letters]
    return [*given, "--region", REGION, "--dynamodb-endpoint", world.engine_url]


def a_day(world: World) -> None:
    """Messages of two queues come, run, fail, die, are cancelled; one is erased."""
    chance = world.chance
    sent = [world.send(queue=chance.choice(["Jobs", "Alerts"])) for _ in range(6)]
    world.send_filtered()
    for _ in range(8):
        queue = chance.choice(["Jobs", "Alerts"])
        world.take(2, queue)
        endings: list[Callable[[], None]] = [world.finish, world.fail, partial(world.finish, result=None)]
        chance.choice(endings)()
        world.forward(chance.choice([5, 700, 3_700]))
    ready = [one for one in world.known.values() if one.status == "ready" and not one.erased]
    if ready:
        world.cancel(ready[0])
    world.erase(sent[chance.randrange(6)])
    world.forward(DAY - world.clock.now // 1000 % DAY + 60)


def test_days_of_exports_in_any_order_give_the_same_lake_through_kills(
    spark: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.forward(100)
    exports = [world.export_full(), world.export_changes()]
    a_day(world)
    exports += [world.export_changes()]
    middle = world.export_full()
    a_day(world)
    exports += [world.export_changes()]
    expected = oracle(world)

    lake = lake_folder(spark, str(tmp_path / "lake"))
    merge(lake, world, *exports[:3])
    merge(lake, world, middle, exports[2])  # overlaps, and comes twice
    for step in (0, 9):
        with killed_after(monkeypatch, lake_files, step), pytest.raises(Killed):
            merge(lake, world, *exports[3:], run="killed")
    merge(lake, world, *exports[3:], run="killed")
    assert contents(lake) == expected

    backwards = lake_folder(spark, str(tmp_path / "backwards"))
    for paths in (exports[3:], [middle, *exports[:2]], exports[2:3]):
        merge(backwards, world, *paths)
    assert contents(backwards) == expected
    assert count_by_status(read_lake(lake)) == count_by_status(read_lake(backwards))

    world.forward(30 * DAY)
    world.clean_up()
    merge(lake, world, world.export_full())
    assert contents(lake) == expected, "long gone from the table"
    days = {row["day"] for row in read_lake(lake).select("day").distinct().collect()}
    assert days == {path.name.removeprefix("day=") for path in (tmp_path / "lake" / "messages").glob("day=*")}


def test_the_table_itself_feeds_a_lake_and_late_endings_update_their_message(
    spark: Any, world: World, tmp_path: Path
) -> None:
    lake = lake_folder(spark, str(tmp_path / "lake"))

    def scan() -> None:
        facts = scanned_facts(spark, TableScan(world.connection, world.clock.now, segments=2))
        merge_into_lake(lake, facts, world.connection, "scan")

    world.send()
    erased = world.send()
    world.take()
    world.forward(10)
    scan()
    assert contents(lake) == oracle(world)
    world.finish(result=None)
    world.erase(erased)
    world.forward(10)
    scan()
    assert contents(lake) == oracle(world)
    assert [known.status for known in world.known.values()] == ["done", "ready"]
    register_table(lake, "everything")
    assert spark.sql("select count(*) from everything where queue = 'Jobs' and day like '2027-%'").first()[0] == 1
    world.send()
    world.forward(10)
    scan()
    register_table(lake, "everything")
    assert spark.table("everything").count() == 2


def test_the_job_keeps_a_lake_from_exports_and_from_the_tables(
    spark: Any, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "system_clock", world.clock)
    given = ["--action", "lake", *options(world, tmp_path)]
    world.forward(100)
    world.send()
    world.send(queue="Alerts")
    world.forward(10)
    export = world.export_full()
    for run in ("one", "again"):
        assert job.main([*given, "--source", export, "--run", run]) == 0
        said = capsys.readouterr().out
        assert "lake · every queue" in said
        summary = json.loads((tmp_path / "reports" / run / "summary.json").read_text())
        assert (summary["counts"], summary["ids"], summary["erased"]) == ({"ready": 2}, 2, 0)
    world.take()
    world.finish(result=None)
    world.forward(10)
    assert job.main([*given, "--run", "tables", "--lake-table", "kept"]) == 0
    assert contents(lake_folder(spark, str(tmp_path / "lake"))) == oracle(world)
    assert spark.table("kept").where("status = 'done'").count() == 1


def test_a_source_is_held_against_all_that_ever_arrived(spark: Any, world: World, tmp_path: Path) -> None:
    world.forward(100)
    world.send(idempotency_key="done")
    world.take()
    world.finish(result=None)
    world.forward(10)
    merge(lake_folder(spark, str(tmp_path / "lake")), world, world.export_full())
    world.forward(30 * DAY)
    world.clean_up()
    (tmp_path / "sent.jsonl").write_text('{"id": "done"}\n{"id": "never"}\n')
    (tmp_path / "definitions.json").write_bytes(world.definitions)
    given = ["--action", "reconcile", "--queue", "Jobs", "--tenant", "acme", "--source", str(tmp_path / "sent.jsonl")]
    given += ["--idempotency-key", "id", "--definitions", str(tmp_path / "definitions.json")]
    counts = {}
    for run, how in (("with", options(world, tmp_path)), ("without", options(world, tmp_path)[2:])):
        assert job.main([*given, *how, "--run", run]) == 0
        found = json.loads((tmp_path / "reports" / run / "summary.json").read_text())["counts"]
        counts[run] = {name: count for name, count in found.items() if count}
    assert counts == {"with": {"done": 1, "missing": 1}, "without": {"missing": 2}}


def test_the_lake_tells_of_the_newest_life_and_only_where_the_table_does_not(spark: Any) -> None:
    ids = [("acme", "a", "missing"), ("acme", "b", "ready"), ("acme", "c", "missing"), ("beta", "a", "missing")]
    lives = [("acme", "a", "dead", 1), ("acme", "a", "done", 2), ("acme", "b", "done", 1), ("acme", "c", None, 1)]
    found = spark.createDataFrame(ids, "tenant string, id string, status string")
    columns = "tenant string, message_id string, status string, received_at long, queue string, idempotency_key string"
    lake = spark.createDataFrame([(*life, "Jobs", None) for life in lives], columns)
    assert sorted(tuple(row) for row in recall(found, lake).collect()) == [
        ("acme", "a", "done"),
        ("acme", "b", "ready"),
        ("acme", "c", "arrived"),
        ("beta", "a", "missing"),
    ]


def test_two_runs_at_once_do_not_undo_each_other(
    spark: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_folder(spark, str(tmp_path / "lake"))
    world.forward(100)
    world.send()
    world.forward(10)
    export = world.export_full()
    stage = LakeFolder.stage

    def stage_meanwhile(self: LakeFolder, run: str, what: str, rows: Any) -> None:
        stage(self, run, what, rows)
        if run == "slow" and what == "loose":
            monkeypatch.setattr(LakeFolder, "stage", stage)
            merge(lake, world, export, run="fast")

    monkeypatch.setattr(LakeFolder, "stage", stage_meanwhile)
    with pytest.raises(StoreUnavailable, match="run it again"):
        merge(lake, world, export, run="slow")
    monkeypatch.undo()
    assert contents(lake) == oracle(world)
