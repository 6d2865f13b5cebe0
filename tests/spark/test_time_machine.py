"""Messages of the past run again: once for each run, from the tables and from a lake that outlived them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from functions.bulk_enqueue import job
from millrace.engine.forget import forget_message
from millrace.model.journal import EFFECTS
from millrace.model.message import Message
from millrace.model.replay_windows import ReplayOf
from millrace.spark.connection import TableConnection
from millrace.spark.data.lake_files import lake_folder
from millrace.spark.rows import COPIES, Row, unpack
from millrace.spark.time_machine import BODY_LOST, ERASED, Chosen, Rerun, replay_rows
from tests.spark.data.test_lake import merge, options
from tests.spark.data.world import World

spark_test = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
DAY = 86_400
N = "get_json_object(cast(body as string), '$.n')"
TABLES = TableConnection("q", "d", "none")


def shaped(definitions: bytes, *given: dict[str, Any], to: str = "Jobs", run: str = "r") -> list[Row]:
    rerun = Rerun(TABLES, definitions, "Jobs", Chosen(ReplayOf.ALL, to), "acme", run, 0)
    life = {
        "message_id": "m1", "status": "done", "key": "k", "priority": 70, "project": "p", "labels": ["a"],
        "correlation_id": "c", "source": "api", "content_type": "application/json", "headers": [("x", "1")],
        "body": b"{}", "dead_letter": None, "received": 1_000, "expires": 0,
    }  # fmt: skip
    (packed,) = replay_rows(rerun, [pa.RecordBatch.from_pylist([life | one for one in given])])
    copies = pa.array([[]] * len(packed), COPIES)
    return unpack(pa.RecordBatch.from_arrays([*packed.columns, copies], [*packed.schema.names, "copies"]), run)


def test_a_message_comes_back_as_it_was_with_its_origin_and_a_key_of_the_run(definitions: bytes) -> None:
    (row,) = shaped(definitions, {})
    draft = row.draft
    assert (draft.body, draft.key, draft.priority, draft.project, draft.labels) == (b"{}", "k", 70, "p", ("a",))
    assert (draft.headers, draft.correlation_id, draft.source) == ({"x": "1"}, "c", "api")
    assert (draft.origin, draft.run, draft.once, draft.idempotency_key) == ("m1", "r", True, None)
    assert shaped(definitions, {})[0].id == row.id
    others = [
        shaped(definitions, {}, run="s"),
        shaped(definitions, {"received": 1_001}),
        shaped(definitions, {"dead_letter": "0000000000999#m1", "status": "dead"}),
    ]
    assert len({row.id, *(other[0].id for other in others)}) == 4


def test_a_dead_one_goes_on_with_its_effects_and_a_done_one_begins_anew(definitions: bytes) -> None:
    known = {"headers": [("x", "1"), (EFFECTS, "first@1")]}
    done, dead, first = shaped(
        definitions, known, known | {"status": "dead"}, {"status": "dead", "message_id": "m2", "headers": None}
    )
    assert EFFECTS not in done.draft.headers
    assert dead.draft.headers[EFFECTS] == "first@1"
    assert first.draft.headers == {EFFECTS: "m2@1000"}


def test_admission_decides_in_the_queue_that_takes_it(definitions: bytes) -> None:
    rows = shaped(
        definitions,
        {"body": b'{"id": "a", "amount": 1, "kind": "x"}'},
        {"body": b'{"id": "b", "amount": 1, "kind": "noise"}', "message_id": "m2"},
        {"body": b'{"id": "c", "amount": "many", "kind": "x"}', "message_id": "m3"},
        {"body": None, "message_id": "m4"},
        to="Typed",
    )
    assert [(row.filtered, row.reason.partition(":")[0]) for row in rows] == [
        (False, ""), (True, ""), (False, "invalid_message"), (False, "body_lost"),
    ]  # fmt: skip
    assert rows[3].reason == BODY_LOST
    assert all(row.raw == b"" for row in rows), "no body of a refused message is shown"
    assert (rows[0].draft.key, rows[0].draft.priority) == ("", None), "those were another queue's"


class Machine:
    """Runs the job and looks at what it made."""

    def __init__(self, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(job, "system_clock", world.clock)
        self.world = world
        self.folder = folder
        (folder / "definitions.json").write_bytes(world.definitions)

    def replay(self, run: str, *more: str, code: int = 0) -> dict[str, int]:
        given = ["--action", "replay", "--queue", "Jobs", "--tenant", "acme", "--run", run]
        given += ["--definitions", str(self.folder / "definitions.json"), *options(self.world, self.folder)[2:]]
        assert job.main([*given, *more]) == code
        summary = self.folder / "reports" / run / "summary.json"
        counts = json.loads(summary.read_text())["counts"] if summary.exists() else {}
        return {name: count for name, count in counts.items() if count}

    def made(self) -> list[Message]:
        store = self.world.runtime.store
        ids = [pk.removeprefix("M#") for _, pk, sk in self.world._items() if sk == "M" and pk.startswith("M#")]
        found = [message for start in range(0, len(ids), 100)
                 for message in store.get_messages(ids[start : start + 100]).values()]  # fmt: skip
        return [message for message in found if message.origin]

    def origins(self, run: str) -> Counter[str]:
        return Counter(message.origin for message in self.made() if message.run == run)


@pytest.fixture
def machine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(world, tmp_path, monkeypatch)


def end(world: World, ending: str) -> Any:
    """A message that has come and ended."""
    known = world.send(json.dumps({"n": len(world.known)}).encode())
    if ending == "dead":
        for _ in range(world.queue().spec.delivery.max_attempts):
            world.take()
            world.fail()
            world.forward(3_700)
    elif ending == "done":
        world.take()
        world.finish(result=None)
    return known


class TestOnSpark:
    pytestmark = spark_test

    def test_a_lake_replays_what_the_table_forgot_once_for_each_run_and_nothing_that_was_erased(
        self,
        spark: Any,
        world: World,
        machine: Machine,
    ) -> None:
        lake = lake_folder(spark, str(machine.folder / "lake"))
        world.forward(100)
        gone = end(world, "done")
        world.forward(30 * DAY)
        export = world.export_full()
        world.clean_up()
        done, dead, erased, forgotten, waiting = (end(world, how) for how in ("done", "dead", "done", "done", "ready"))
        world.forward(10)  # a view tells what is gone of what it ought to have shown
        merge(lake, world, export, world.export_full())
        world.erase(erased)
        forget_message(world.queue(), forgotten.id)  # leaves a husk in its place
        lake_option = ("--of", "all", "--lake", lake.path)

        assert machine.replay("one", *lake_option, "--dry-run") == {}
        assert not machine.made()
        assert machine.replay("one", *lake_option, "--strict", code=1) == {"inserted": 3, "rejected": 2}
        assert machine.origins("one") == {gone.id: 1, done.id: 1, dead.id: 1}
        rejects = next((machine.folder / "reports" / "one" / "rejects").glob("*.json")).read_text()
        assert ERASED in rejects
        assert erased.body.decode() not in rejects
        (letter,) = world.dead_letters()
        assert (letter.replay_job, letter.replayed_at > 0) == ("one", True)

        world.take()
        world.finish(result=None)
        assert waiting.status == "done"
        world.forward(10)
        merge(lake, world, world.export_full())
        assert machine.replay("one", *lake_option) == {"inserted": 3}
        assert machine.origins("one") == {gone.id: 1, done.id: 1, dead.id: 1}
        window = ("--received-from", "2027-01-01T00:00:00Z", "--where", f"{N} > 0")
        machine.replay("two", *lake_option, *window)
        assert machine.origins("two").keys() == {done.id, dead.id, waiting.id}

    def test_the_table_replays_what_matches_into_another_queue(
        self,
        world: World,
        machine: Machine,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        done = [end(world, "done") for _ in range(4)]
        end(world, "dead")
        world.forward(10)
        chosen = ("--of", "done", "--where", f"{N} > 1", "--to", "Alerts")
        machine.replay("dry", *chosen, "--dry-run")
        said = capsys.readouterr().out
        assert "would replay  2" in said
        assert done[2].id in said
        assert done[0].id not in said
        assert not machine.made()
        assert machine.replay("real", *chosen) == {"inserted": 2}
        made = machine.made()
        assert {message.origin for message in made} == {done[2].id, done[3].id}
        assert {message.queue for message in made} == {"Alerts"}
        assert machine.replay("wrong", "--of", "done", "--where", "no such column", code=2) == {}
        assert "Spark SQL over the messages" in capsys.readouterr().err
