"""Parts of a read: shares of exports are disjoint and whole, and nothing that moved or died meanwhile is mistaken."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from millrace.engine.status import locate_all
from millrace.spark.data import message_rows
from millrace.spark.data.facts import NoExportLine
from millrace.spark.data.lives import Views
from millrace.spark.data.message_rows import Deriving, read_message_body
from millrace.spark.data.parts import Ids, Reading, Segment, read_lives
from millrace.spark.data.read_plan import ReadPlan
from tests.spark.data.test_read_plan import options
from tests.spark.data.world import World


def reading(world: World) -> Reading:
    return Reading(Deriving(Views(), world.connection, "acme"), world.clock.now)


def statuses(world: World, *, segments: int = 2) -> dict[str, str | None]:
    every = [Segment(world.names.queue, number, segments) for number in range(segments)]
    lives = [life for part in every for life in read_lives(reading(world), part)]
    return {life.message.id: life.status.value if life.status else None for life in lives}


def test_shares_of_an_export_are_disjoint_and_whole(world: World) -> None:
    ids = {world.send().id for _ in range(40)}
    plan, shares = ReadPlan.from_options(options(world, export=world.export_full(), segments="7")).planned()
    of_each = [{life.message.id for life in read_lives(plan.reading, share)} for share in shares]
    assert sum(map(len, of_each)) == 40
    assert set().union(*of_each) == ids
    assert sum(map(bool, of_each)) > 1


def test_a_message_that_dies_while_it_is_scanned_is_dead_not_done(world: World) -> None:
    """Its location was scanned before it died: the look by its id tells."""
    attempts = world.queue().spec.delivery.max_attempts
    dying = world.send()
    for _ in range(attempts - 1):
        world.take()
        world.fail()
        world.forward(3_700)
    world.take()

    def after_the_scan(store: object, messages: object) -> object:
        world.fail()
        return locate_all(store, messages)  # type: ignore[arg-type]

    with patch("millrace.spark.data.scans.locate_all", after_the_scan):
        assert statuses(world) == {dying.id: "dead"}


def test_messages_by_their_ids_are_those_and_no_others(world: World) -> None:
    one, _, three = world.send(), world.send(), world.send()
    asked = Ids((one.id, three.id, "gone"))
    assert {life.message.id for life in read_lives(reading(world), asked)} == {one.id, three.id}


def test_bodies_of_what_nobody_asked_for_are_not_fetched(world: World) -> None:
    old = world.send()
    world.forward(60)
    new = world.send()
    late = replace(reading(world).deriving, received=(world.clock.now, 2**62))
    only = replace(reading(world), deriving=late)
    with patch.object(message_rows, "read_message_body", side_effect=read_message_body) as fetched:
        found = [life.message.id for life in read_lives(only, Segment(world.names.queue, 0, 1))]
    assert found == [new.id]
    assert [call.args[1].id for call in fetched.call_args_list] == [new.id]
    assert old.id != new.id


def test_a_damaged_export_is_an_error_with_its_file(world: World) -> None:
    import gzip
    from pathlib import Path

    world.send()
    root = Path(world.export_full())
    file = next(root.rglob("*.json.gz"))
    file.write_bytes(gzip.compress(b"{broken\n"))
    plan, (share, *_) = ReadPlan.from_options(options(world, export=str(root))).planned()
    with pytest.raises(NoExportLine, match=file.name):
        list(read_lives(plan.reading, share))
