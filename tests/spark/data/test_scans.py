"""Scans of a table that changes meanwhile: what moves behind the scan's back is found by its id."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.spark.data.lives import Views
from millrace.spark.data.message_rows import Deriving, lives_by_id
from millrace.spark.data.scans import TableScan, scan_facts, second_look
from tests.spark.data.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


def test_an_entry_that_moved_while_it_was_scanned_is_not_taken_for_done(spark: Any, world: World) -> None:
    world.send()
    world.send()
    (moved,) = world.take()  # either: they came within one millisecond
    world.fail()
    (done,) = world.take()
    world.finish(result=None)
    world.forward(100)
    scan = TableScan(world.connection, world.clock.now, segments=2)
    unseen = scan_facts(spark, scan).where("kind != 'entry'").persist()
    views = Deriving(Views((world.clock.now * 1000,)), None)

    def statuses(facts: Any) -> dict[str, str]:
        return {row["message_id"]: row["status"] for row in lives_by_id(facts, views).collect()}

    assert statuses(unseen)[moved.id] == "done", "which it is not"
    again = second_look(unseen, scan).persist()
    assert {row["id"] for row in again.collect()} == {moved.id}
    assert statuses(unseen.unionByName(again)) == world.statuses() == {moved.id: "ready", done.id: "done"}
