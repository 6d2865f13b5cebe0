"""`queues`, `watch`, `messages`, `claims`: lists with their columns, and the cursor of the next page."""

from __future__ import annotations

import json

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


def test_a_queue_is_active_or_paused(terminals: tuple[Terminal, Terminal]) -> None:
    producer, _ = terminals
    assert b"active" in producer.run("queues").stdout
    assert json.loads(producer.run("pause", "Jobs", "-o", "json").stdout)["paused"]
    assert b"paused" in producer.run("queues").stdout
    assert b"Jobs" in producer.run("watch", "--times", "1").stdout
    producer.run("resume", "Jobs")
