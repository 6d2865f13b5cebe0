"""`spark.read.format("millrace")` on Spark 4: what an oracle knows, from tables and exports; filters spare reading."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, IsNotNull, LessThan

from millrace.spark.data.parts import AuditOf, Failed, Ids, Segment
from millrace.spark.data.read_plan import ReadPlan
from millrace.spark.data_source import NAME, register
from millrace.spark.source_reader import FilteringReader, narrowed
from tests.spark.data.test_read import live_a_little
from tests.spark.data.test_read_plan import options
from tests.spark.data.world import World

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.mark.parametrize("where", ["table", "export"])
def test_messages_are_rows_with_their_types(spark: Any, world: World, where: str) -> None:
    register(spark)
    world.forward(100)
    live_a_little(world)
    given = options(world, export=world.export_full() if where == "export" else "")
    found = spark.read.format(NAME).options(**given).load().collect()
    assert {row["message_id"]: row["status"] for row in found} == world.statuses()
    assert {row["message_id"]: bytes(row["body"] or b"") for row in found} == world.bodies()
    received = {row["message_id"]: row["received_at"].astimezone(UTC).timestamp() * 1000 for row in found}
    assert received == {one.id: one.received_at for one in world.known.values()}
    for kind in ("attempts", "results", "dead_letters"):
        assert spark.read.format(NAME).options(**given).load(kind).count() >= 1, kind


def test_a_typed_field_is_a_column_to_filter_by(spark: Any, world: World) -> None:
    register(spark)
    for urgency in ("high", "low", "high"):
        world.send(json.dumps({"incident": {"urgency": urgency, "n": len(world.known)}}).encode(), "Alerts")
    shapes = json.dumps({"payload": "struct<incident: struct<urgency: string>>"})
    typed = options(world, queue="Alerts", definitions_text=world.definitions.decode(), json_fields=shapes)
    frame = spark.read.format(NAME).options(**typed).load()
    assert frame.where("payload.incident.urgency = 'high'").count() == 2


def test_filters_reach_the_reader_and_the_answer_is_the_same(spark: Any, world: World) -> None:
    register(spark)
    wanted = world.send()
    world.send()
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.read.format(NAME).options(**options(world, push_filters="true")).load()
        by_id = frame.where(frame.message_id == wanted.id)
        assert [row["message_id"] for row in by_id.collect()] == [wanted.id]
        assert by_id.rdd.getNumPartitions() == 1, "a query for the id, and no scan"
        assert frame.where("queue = 'Jobs' and received_at >= '2020-01-01'").count() == 2
        assert frame.where("queue = 'Nothing'").count() == 0
    finally:
        spark.conf.unset(PUSHDOWN)


def plan(world: World, what: str = "messages") -> ReadPlan:
    given = options(world, what=what)
    del given["tenant"]
    return ReadPlan.from_options(given)


def test_filters_that_help_narrow_the_plan_and_others_leave_it(world: World) -> None:
    reader = FilteringReader(plan(world))
    pushed = [In(("message_id",), ("a", "b")), EqualTo(("message_id",), "b"), IsNotNull(("body",))]
    assert reader.pushFilters(pushed) == pushed, "Spark applies them again"
    assert reader.plan.planned()[1] == [Ids(("b",))]
    dead = plan(world, "dead_letters")
    assert isinstance(dead.planned()[1][0], Segment)
    for filter_ in (EqualTo(("tenant",), "acme"), EqualTo(("queue",), "Jobs")):
        dead = narrowed(dead, filter_)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    dead = narrowed(narrowed(dead, GreaterThanOrEqual(("ended_at",), moment)), LessThan(("ended_at",), moment))
    at = round(moment.timestamp() * 1000)
    assert dead.planned()[1] == [Failed("acme", "Jobs", at - 1, at + 1)]
    audit = narrowed(plan(world, "audit_events"), EqualTo(("tenant",), "acme"))
    assert audit.planned()[1] == [AuditOf("acme")]
    assert narrowed(audit, EqualTo(("tenant",), "other")) == audit
    spanned = narrowed(plan(world), GreaterThanOrEqual(("received_at",), moment))
    assert spanned.reading.deriving == replace(plan(world).reading.deriving, received=(at - 1, 2**62))
