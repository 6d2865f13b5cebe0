"""A lake changes as a whole: whoever is killed at whatever step leaves the lake before or after, never another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import InvalidField, StoreUnavailable
from millrace.spark.data import lake_files
from millrace.spark.data.lake_files import ERASED, MESSAGES, LakeFolder, lake_folder
from tests.spark.data.crashes import Killed, killed_after

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
DDL = "message_id string, n int, day string, queue string"
ONE = [("a", 1, "2027-01-15", "Jobs"), ("b", 2, "2027-01-15", "Jobs"), ("c", 3, "2027-01-16", "Jobs")]
#: Day 15 changes, day 16 is emptied, day 17 is new.
TWO = [("a", 9, "2027-01-15", "Jobs"), ("d", 4, "2027-01-17", "Alerts")]
ERASED_DDL = "message_id string, erased_at bigint"


def rows(lake: LakeFolder) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.read(MESSAGES, DDL).collect())


def change(lake: LakeFolder, run: str, given: list[tuple[Any, ...]], emptied: list[str]) -> None:
    lake.forget_staged(run)
    lake.stage(run, MESSAGES, lake.spark.createDataFrame(given, DDL))
    lake.stage(run, ERASED, lake.spark.createDataFrame([("x", 1)], ERASED_DDL))
    lake.commit(run, emptied, {"version": 1 + lake.read_state().get("version", 0)})


def test_a_change_killed_at_any_step_is_made_or_not_made(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = False
    steps = 0
    while not finished:
        lake = lake_folder(spark, str(tmp_path / f"lake-{steps}/"))
        assert (rows(lake), lake.read_state()) == ([], {})
        change(lake, "one", ONE, [])
        assert rows(lake) == ONE
        with killed_after(monkeypatch, lake_files, steps):
            try:
                change(lake, "two", TWO, ["messages/day=2027-01-16/queue=Jobs"])
                finished = True
            except Killed:
                pass
        state = lake.read_state()  # whoever comes next
        assert (rows(lake), state["version"]) in ((ONE, 1), (TWO, 2))
        change(lake, "two", TWO, ["messages/day=2027-01-16/queue=Jobs"])
        assert rows(lake) == TWO
        assert [tuple(row) for row in lake.read(ERASED, ERASED_DDL).collect()] == [("x", 1)]
        assert not list((tmp_path / f"lake-{steps}" / "_millrace").glob("staged/*"))
        steps += 1
    assert steps > 12, "every file that is moved or removed is a step"


def test_a_run_that_begins_leaves_alone_what_another_has_staged_and_only_one_of_them_commits(
    spark: Any, tmp_path: Path
) -> None:
    lake = lake_folder(spark, str(tmp_path / "lake"))
    lake.stage("slow", MESSAGES, spark.createDataFrame(TWO, DDL))
    lake.forget_staged("fast")
    lake.stage("fast", MESSAGES, spark.createDataFrame(ONE, DDL))
    lake.commit("fast", [], {"version": 1})
    with pytest.raises(StoreUnavailable, match="run it again"):
        lake.commit("slow", [], {"version": 1})
    assert rows(lake) == ONE

    lake.stage("slow", MESSAGES, spark.createDataFrame(TWO, DDL))
    lake.forget_staged("fast")
    lake.commit("slow", ["messages/day=2027-01-16/queue=Jobs"], {"version": 2})
    assert rows(lake) == TWO, "nothing that was staged is missing"


def test_a_path_is_needed(spark: Any) -> None:
    with pytest.raises(InvalidField, match="is no folder"):
        lake_folder(spark, "/")
