"""What the tasks of `spark.read.format("millrace")` give, run by hand and held to an oracle: no session is needed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from infra.local.dynamodb import REGION
from millrace.engine.dictionary_review import publish
from millrace.model.audit import AuditEvent
from millrace.model.dictionary import Dictionary
from millrace.model.errors import InvalidField
from millrace.spark.data.read_plan import ReadPlan
from millrace.stores.dynamodb.audit import DynamoAuditLog
from tests.spark.data.test_read import live_a_little
from tests.spark.data.world import World


def options(world: World, **more: str) -> dict[str, str]:
    return {
        "queue_table": world.names.queue, "dead_letter_table": world.names.dead_letters, "body_bucket": "none",
        "region": REGION, "endpoint_url": world.engine_url, "tenant": "acme", "now": str(world.clock.now),
        "segments": "3", **more,
    }  # fmt: skip


def rows_of(plan: ReadPlan) -> list[dict[str, Any]]:
    plan, parts = plan.planned()
    return [dict(zip(plan.columns(), row, strict=True)) for part in parts for row in plan.rows(part)]


def read(world: World, **more: str) -> list[dict[str, Any]]:
    return rows_of(ReadPlan.from_options(options(world, **more)))


@pytest.mark.parametrize("where", ["table", "export", "changes"])
def test_every_message_once_with_how_it_stands(world: World, where: str) -> None:
    world.forward(100)
    live_a_little(world)
    export = "" if where == "table" else world.export_full() if where == "export" else world.export_changes()
    rows = read(world, export=export)
    found = {row["message_id"]: row for row in rows}
    assert len(rows) == len(found)
    assert {id_: row["status"] for id_, row in found.items()} == world.statuses()
    assert {id_: row["body"] or b"" for id_, row in found.items()} == world.bodies()
    (dead,) = (row for row in rows if row["status"] == "dead")
    assert (dead["reason"], dead["error_type"]) == ("exhausted", "ConnectionError")
    assert len(dead["history"]) == dead["attempts"] == world.known[dead["message_id"]].failures
    assert dead["ended_at"].timestamp() * 1000 == world.known[dead["message_id"]].ended_at


@pytest.mark.parametrize("exported", [False, True])
def test_the_other_kinds(world: World, exported: bool) -> None:
    live_a_little(world)
    log = DynamoAuditLog(world.client, world.names.queue)
    log.begin(AuditEvent("e1", world.clock.now, "acme", "t", "ann", "purgeQueue", 9_999_999_999, queue="Jobs"))
    more = {"export": world.export_full() if exported else "", "queue": "Jobs"}
    attempts = read(world, what="attempts", **more)
    assert len(attempts) == sum(one.failures for one in world.known.values())
    (result,) = read(world, what="results", **more)
    assert (result["idempotency_key"], result["result"]) == ("first", '{"ok":true}')
    (dead,) = read(world, path="dead_letters", **more)
    assert (dead["body"], dead["dead_letter"]) == (b"x" * 3_000, world.dead_letters()[0].sk)
    (event,) = read(world, what="audit_events", **more)
    assert (event["action"], event["ended_at"]) == ("purgeQueue", None)


def test_dead_letters_and_audit_events_of_no_tenant_in_particular_are_scanned(world: World) -> None:
    live_a_little(world)
    DynamoAuditLog(world.client, world.names.queue).begin(
        AuditEvent("e1", world.clock.now, "acme", "t", "ann", "purgeQueue", 9_999_999_999)
    )
    assert len(read(world, what="dead_letters", tenant="")) == 0, "an empty tenant is a tenant, and has none"
    every = options(world, what="dead_letters")
    del every["tenant"]
    assert len(rows_of(ReadPlan.from_options(every))) == 1
    assert len(rows_of(ReadPlan.from_options(every | {"what": "audit_events"}))) == 1


def test_a_bodys_fields_are_columns_of_their_types(world: World) -> None:
    world.send(json.dumps({"incident": {"urgency": "high", "count": 3}}).encode(), "Alerts", headers={"x": "1"})
    world.send(b"no json", "Alerts")
    given = {"queue": "Alerts", "definitions_text": world.definitions.decode()}
    shapes = {"payload": "struct<incident: struct<count: bigint>>"}
    plan = ReadPlan.from_options(options(world, json_fields=json.dumps(shapes), **given))
    columns = plan.columns()
    assert columns["payload"] == shapes["payload"]
    assert (columns["body_headers"], columns["headers"]) == ("map<string, string>", "map<string,string>")
    assert columns["body_received_at"] == "timestamp"
    texts = ReadPlan.from_options(options(world, **given))
    assert texts.columns()["payload"] == "string"
    count = StructType([StructField("count", LongType())])
    kinds = {"payload": StructType([StructField("incident", count)])}
    rows = _typed_rows(plan, kinds)
    assert sorted((row["payload"] or {"incident": {"count": None}})["incident"]["count"] or 0 for row in rows) == [0, 3]


def _typed_rows(plan: ReadPlan, kinds: dict[str, Any]) -> list[dict[str, Any]]:
    from dataclasses import replace

    from pyspark.sql.types import StringType

    fields = [StructField(name, kinds.get(name, StringType())) for name in plan.columns()]
    return rows_of(replace(plan, schema=StructType(fields)))


def test_what_does_not_fit_together_is_refused(world: World) -> None:
    with pytest.raises(InvalidField, match="'letters' is unknown"):
        ReadPlan.from_options(options(world, what="letters"))
    with pytest.raises(InvalidField, match="queue_table: is missing"):
        ReadPlan.from_options({"what": "messages"})
    with pytest.raises(InvalidField, match="no manifest-summary"):
        ReadPlan.from_options(options(world, export=str(world.folder))).planned()


def test_exports_need_no_tables(world: World) -> None:
    world.send(b'{"n":1}')
    (row,) = rows_of(ReadPlan.from_options({"export": world.export_full()}))
    assert row["body"] == b'{"n":1}'


def test_exports_alone_hold_the_dictionaries_of_their_bodies(world: World) -> None:
    queue, words = world.queue(), b"the same as ever, " * 40
    assert publish(queue, queue.state(fresh=True), Dictionary(b"the same as ever, "))
    sent = world.send(words)
    assert queue.store.get_messages([sent.id])[sent.id].body.dictionary
    (row,) = rows_of(ReadPlan.from_options({"export": world.export_full()}))
    assert row["body"] == words
