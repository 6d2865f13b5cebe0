"""`queues`, `watch`, `messages`, `claims`: lists with their columns, and the cursor of the next page."""

from __future__ import annotations

import json

from millrace.cli.connection import Exit
from millrace.model.clock import system_clock
from millrace.model.queue_state import BreakerState
from millrace.stores.dynamodb.store import DynamoStore
from tests.cli.terminal import Terminal


def test_a_list_goes_on_where_its_cursor_says(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    sent = [producer.json("enqueue", "Jobs", str(n))["message_id"] for n in range(2)]
    first = producer.json("messages", "Jobs", "--limit", "1")
    rest = producer.json("messages", "Jobs", "--cursor", first["next"])
    assert [entry["message_id"] for entry in (*first["messages"], *rest["messages"])] == sent
    assert b"More: --cursor" in producer.run("messages", "Jobs", "--limit", "1").stderr
    assert producer.json("messages", "Jobs", "--lane", "scheduled") == {"messages": [], "next": None}
    worker.run("dequeue", "Jobs", "--owner", "me")
    assert b"me" in producer.run("claims", "Jobs").stdout


def test_breakers_are_listed_with_their_times_and_reset_one_or_all(
    terminals: tuple[Terminal, Terminal], tenant: str, dynamo_store: DynamoStore
) -> None:
    producer, _ = terminals
    now = system_clock()
    for target in ("http:a", "http:b", "http:c"):
        seen = dynamo_store.get_queue_state(tenant, "Jobs")
        assert dynamo_store.set_breaker(seen, target, BreakerState(now + 3_600_000, 2, since=now - 60_000))
    first = producer.json("breakers", "Jobs")[0]
    assert (first["target"], first["failed_probes"]) == ("http:a", 2)
    assert first["since"] < first["until"]
    assert b"down for 1 min" in producer.run("breakers", "Jobs").stdout
    assert b"target down" in producer.run("queues").stdout
    assert [one["target"] for one in producer.json("breakers", "Jobs", "--reset", "http:b")] == ["http:a", "http:c"]
    assert b"http:b" in producer.run("breakers", "Jobs", "--reset", "http:b", exit_code=Exit.NOTHING).stderr
    both = producer.run("breakers", "Jobs", "--reset", "http:a", "--reset-all", exit_code=Exit.USAGE)
    assert b"exclude each other" in both.stderr
    assert producer.json("breakers", "Jobs", "--reset-all") == []


def test_a_queue_is_active_or_paused(terminals: tuple[Terminal, Terminal]) -> None:
    producer, _ = terminals
    assert b"active" in producer.run("queues").stdout
    assert json.loads(producer.run("pause", "Jobs", "-o", "json").stdout)["paused"]
    assert b"paused" in producer.run("queues").stdout
    assert b"Jobs" in producer.run("watch", "--times", "1").stdout
    producer.run("resume", "Jobs")
