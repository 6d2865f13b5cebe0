"""The queue as DataFrames, from the tables and from exports."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.engine.dictionary_review import publish
from millrace.model.audit import AuditEvent
from millrace.model.dictionary import Dictionary
from millrace.model.errors import InvalidField
from millrace.spark.data.exports import ROOT, find_exports
from millrace.spark.data.read import read
from millrace.stores.dynamodb.audit import DynamoAuditLog
from tests.spark.data.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


def live_a_little(world: World) -> None:
    """One of each: done with a result and without, dead, scheduled, in flight, ready, purged, filtered."""
    world.send(b'{"n":1}', key="k1", priority=70, project="p", labels=("a", "b"), idempotency_key="first")
    world.take()
    world.finish()
    world.send(b"x" * 3_000)
    for _ in range(world.queue().spec.delivery.max_attempts):
        world.take()
        world.fail()
        world.forward(3_700)
    world.send(b'{"quiet":1}')
    world.take()
    world.finish(result=None)
    world.send(b'{"later":1}')
    world.take()
    world.fail()
    world.send(b'{"held":1}')
    world.take()
    world.cancel(world.send(b'{"cancelled":1}'))
    world.send_filtered()
    world.send(b"\x00\xff")
    world.forward(10)


def by_id(frame: Any) -> dict[str, dict[str, Any]]:
    return {row["message_id"]: row.asDict(recursive=True) for row in frame.collect()}


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC).astimezone().replace(tzinfo=None)


@pytest.mark.parametrize("where", ["table", "export", "changes"])
def test_every_message_with_how_it_stands(spark: Any, world: World, where: str) -> None:
    world.forward(100)  # the window begins long before the first message: its entry would show
    live_a_little(world)
    options: dict[str, Any] = {"now": world.clock.now, "segments": 2}
    if where != "table":
        options["export"] = world.export_full() if where == "export" else world.export_changes()
    found = by_id(read(spark, connection=world.connection, tenant="acme", **options))
    assert {id_: row["status"] for id_, row in found.items()} == world.statuses()
    assert {id_: bytes(row["body"] or b"") for id_, row in found.items()} == world.bodies()
    dead = next(row for row in found.values() if row["status"] == "dead")
    assert (dead["error_type"], dead["reason"], dead["attempts"]) == (
        "ConnectionError",
        "exhausted",
        len(dead["history"]),
    )
    assert dead["started_at"] == dead["history"][0]["started_at"]
    assert dead["fingerprint"] == world.dead_letters()[0].fingerprint
    for known in world.known.values():
        assert found[known.id]["received_at"] == moment(known.received_at)
        if known.ended_at and (found[known.id]["result"] or known.status != "done"):
            assert found[known.id]["ended_at"] == moment(known.ended_at), known


def test_attempts_results_dead_letters_and_audit_events(spark: Any, world: World) -> None:
    live_a_little(world)
    log = DynamoAuditLog(world.client, world.names.queue)
    log.begin(AuditEvent("e1", world.clock.now, "acme", "t", "ann", "purgeQueue", 9_999_999_999, queue="Jobs"))
    export = world.export_full()
    known: dict[str, Any] = {"connection": world.connection, "export": export, "tenant": "acme", "queue": "Jobs"}
    attempts = read(spark, "attempts", **known).collect()
    assert len(attempts) == sum(one.failures for one in world.known.values())
    assert {row["error_type"] for row in attempts} == {"ConnectionError"}
    results = read(spark, "results", **known).collect()
    assert [(row["idempotency_key"], row["result"]) for row in results] == [("first", '{"ok":true}')]
    (dead,) = read(spark, "dead_letters", **known).collect()
    assert (bytes(dead["body"]), dead["reason"], dead["dead_letter"]) == (
        b"x" * 3_000,
        "exhausted",
        world.dead_letters()[0].sk,
    )
    (event,) = read(spark, "audit_events", **known).collect()
    assert (event["id"], event["action"], event["outcome"], event["ended_at"]) == ("e1", "purgeQueue", "started", None)
    assert event["at"] == moment(world.clock.now)


def test_a_bodys_fields_are_columns(spark: Any, world: World) -> None:
    world.forward(100)
    world.send(json.dumps({"incident": {"urgency": "high", "a-b.c": [1]}}).encode(), "Alerts", headers={"x": "1"})
    world.send(json.dumps({"incident": {"urgency": "low", "count": 3}}).encode(), "Alerts")
    world.send(b"no json", "Alerts")
    export = world.export_full()
    known: dict[str, Any] = {
        "connection": world.connection,
        "export": export,
        "definitions": world.definitions,
        "queue": "Alerts",
    }
    frame: Any = read(spark, **known)
    urgent = frame.where("payload.incident.urgency = 'high'").select(
        "payload.incident.*", "headers", "body_received_at"
    )
    (row,) = urgent.collect()
    assert (row["urgency"], row["count"], row["a-b.c"], row["headers"]) == ("high", None, [1], {"x": "1"})
    assert row["body_received_at"] == moment(world.clock.now)
    assert frame.where("payload is null").select("body").first()["body"] == b"no json"
    text: Any = read(spark, json_fields="text", **known).where("headers['x'] = '1'").select("payload").first()
    assert json.loads(text["payload"])["incident"]["urgency"] == "high"
    shaped = read(spark, json_fields={"payload": "struct<incident: struct<count: int>>"}, **known)
    assert shaped.select("payload.incident.count").where("count = 3").count() == 1


def test_what_does_not_fit_together_is_refused(spark: Any, world: World) -> None:
    with pytest.raises(InvalidField, match="'letters' is unknown"):
        read(spark, "letters", connection=world.connection)
    with pytest.raises(InvalidField, match="connection: is missing"):
        read(spark)
    with pytest.raises(InvalidField, match="no manifest-summary"):
        read(spark, connection=world.connection, export=str(world.folder))


@pytest.mark.parametrize("where", ["table", "export", "export alone", "changes alone"])
def test_bodies_packed_with_a_dictionary_are_read_back(spark: Any, world: World, where: str) -> None:
    """By the table's dictionary, or by the export's own where there is nothing else."""
    queue = world.queue()
    assert publish(queue, queue.state(fresh=True), Dictionary(b'{"words":"the same as ever","number":'))
    words = b'{"words":"the same as ever","number":1}' * 40
    sent = world.send(words)
    assert queue.store.get_messages([sent.id])[sent.id].body.dictionary
    for _ in range(queue.spec.delivery.max_attempts):
        world.take()
        world.fail()
        world.forward(3_700)
    world.send(words + b"2")
    world.forward(10)
    options: dict[str, Any] = {"now": world.clock.now, "segments": 2, "tenant": "acme"}
    if where != "table":
        options["export"] = world.export_changes() if where == "changes alone" else world.export_full()
    if where.endswith("alone"):
        exports = [one for one in find_exports(spark, options["export"]) if one.table == world.names.queue]
        options["export"] = [f"{options['export']}/{ROOT}{one.name}" for one in exports]
        found = by_id(read(spark, **options))
    else:
        found = by_id(read(spark, connection=world.connection, **options))
        (dead,) = read(spark, "dead_letters", connection=world.connection, **options).collect()
        assert bytes(dead["body"]) == world.bodies()[dead["message_id"]]
    assert {id_: bytes(row["body"]) for id_, row in found.items()} == world.bodies()
