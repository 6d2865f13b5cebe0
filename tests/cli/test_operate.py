"""What an operator does in the console, by the command line: search, cancel, purge, jobs, audit, replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from millrace.cli.connection import Exit
from tests.cli.terminal import Terminal


def test_a_message_is_found_and_cancelled(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    sent = producer.json("enqueue", "Jobs", "1", "--at", at, "--correlation-id", "order-7")
    later = producer.json("enqueue", "Jobs", "2", "--in", "10m")["message_id"]
    (found,) = producer.json("search", "order-7")["found"]
    assert (found["message_id"], found["status"]) == (sent["message_id"], "scheduled")
    producer.run("search", "nothing-like-it", exit_code=Exit.NOTHING)
    listed = producer.json("messages", "Jobs")["messages"]
    assert {entry["message_id"] for entry in listed} == {sent["message_id"], later}, "every lane is listed"
    producer.run("cancel", "Jobs", later)
    assert producer.json("status", "Jobs", later)["status"] == "purged"
    producer.run("cancel", "Jobs", later, exit_code=Exit.NOTHING)
    producer.run("enqueue", "Jobs", "3")
    held = worker.json("dequeue", "Jobs")["message_id"]
    assert b"holds message" in producer.run("cancel", "Jobs", held, exit_code=Exit.FAILED).stderr
    worker.run("cancel", "Jobs", held, exit_code=Exit.DENIED)
    (event, *_) = producer.json("audit", "--action", "cancel_message", "--outcome", "ok")["events"]
    assert (event["subject"], event["name"]) == (later, "producer")
    producer.run("cancel", "Jobs", held, "--running")
    assert producer.json("status", "Jobs", held)["status"] == "purged"
    (event, *_) = producer.json("audit", "--action", "cancel_message", "--outcome", "ok")["events"]
    assert (event["subject"], event["detail"]) == (held, '{"running":true}')
    assert b"cancel_message" in producer.run("audit", "--queue", "Jobs").stdout


def test_a_queue_is_purged_by_a_job(terminals: tuple[Terminal, Terminal]) -> None:
    producer, _ = terminals
    producer.run("enqueue", "Ordered", "1")
    producer.run("purge", "Ordered", exit_code=Exit.FAILED)  # nobody said yes
    job = producer.json("purge", "Ordered", "--yes")
    assert job["kind"] == "purge_queue"
    assert producer.json("jobs", "show", "Ordered", job["job_id"])["total"] == 1
    assert job["job_id"] in {one["job_id"] for one in producer.json("jobs", "list", "Ordered")}
    producer.run("jobs", "cancel", "Ordered", job["job_id"])
    producer.run("jobs", "resume", "Ordered", job["job_id"])
    producer.run("jobs", "show", "Ordered", "0" * 32, exit_code=Exit.NOTHING)


def test_a_replay_counts_first_and_asks_before_it_repeats(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    for number in (1, 2):
        producer.run("enqueue", "Jobs", str(number))
        worker.run(
            "work",
            "Jobs",
            "--once",
            "--reject-on",
            str(number),
            "--",
            "sh",
            "-c",
            f"echo gate {number} >&2; exit {number}",
            exit_code=Exit.FAILED,
        )
    found = producer.json("dlq", "replay", "Jobs", "--dry-run", "--error", "gate 2")
    assert (found["count"], found["replayed"]) == (1, 0)
    (made,) = producer.json("dlq", "replay", "Jobs", "--all", "--error", "gate 2")
    asked = producer.run("dlq", "replay", "Jobs", made["id"], stdin=b"n\n", exit_code=Exit.FAILED)
    assert f"was replayed as {made['new_message_id']}" in asked.stderr.decode()
    producer.run("dlq", "replay", "Jobs", made["id"], stdin=b"y\n")
    producer.run("dlq", "replay", "Jobs", made["id"], "--yes")
    assert len(producer.json("messages", "Jobs")["messages"]) == 3
