"""Scans of a table that changes meanwhile: what moves behind the scan's back is found by its id."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.clock import system_clock
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


def test_what_came_while_a_long_scan_went_on_is_not_erased_by_an_export_of_the_time_between(
    spark: Any, world: World
) -> None:
    """The scan began before the export, and met the message after it: the export cannot have shown it."""
    world.clock.now = system_clock()
    late = world.send()
    scan = TableScan(world.connection, world.clock.now - 600_000, segments=2)
    exported_at = (world.clock.now - 300_000) * 1000
    facts = scan_facts(spark, scan).persist()
    views = Views((scan.started_at * 1000, exported_at))
    found = lives_by_id(facts, Deriving(views, None)).where("tenant is not null").collect()
    assert [(row["message_id"], row["status"]) for row in found] == [(late.id, "ready")]
