"""From a failure to a replay by the command line, and a pause in between."""

from __future__ import annotations

import time

from millrace.cli.connection import Exit
from millrace.engine.queue import CACHED_STATE_MS
from tests.cli.terminal import Terminal


def test_a_message_from_failure_to_replay(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    producer.run("enqueue", "Jobs", "--content-type", "image/x", stdin=b"\x00\xff raw")
    taken = worker.run("dequeue", "Jobs")
    assert taken.stdout == b"\x00\xff raw"
    worker.evaluate(taken.stderr)
    assert worker.json("nack", "--delay", "0", "--error", "bad luck")["outcome"] == "retry"
    worker.run("ack", exit_code=Exit.STALE)
    worker.evaluate(worker.run("dequeue", "Jobs", "--wait", "10").stderr)
    assert worker.environment["MILLRACE_ATTEMPT"] == "2"
    worker.run("nack", "--reject", "--error", "never")
    (dead_letter,) = producer.json("dlq", "list", "Jobs", "--error", "never")["dead_letters"]
    assert b"bad luck" in producer.run("dlq", "show", "Jobs", dead_letter["id"]).stdout
    (replayed,) = producer.json("dlq", "replay", "Jobs", "--all")
    producer.run("dlq", "replay", "Jobs", "--all", exit_code=Exit.NOTHING)
    producer.run("dlq", "purge", "Jobs", dead_letter["id"], "--yes")
    producer.run("dlq", "show", "Jobs", dead_letter["id"], exit_code=Exit.NOTHING)
    producer.run("pause", "Jobs")
    assert b"paused" in producer.run("queues").stdout
    time.sleep(CACHED_STATE_MS / 1000)  # a function that read the queue's state just before may go by it so long
    worker.run("dequeue", "Jobs", exit_code=Exit.NOTHING)
    producer.run("resume", "Jobs")
    worker.evaluate(worker.run("dequeue", "Jobs", "--wait", "10").stderr)
    assert worker.environment["MILLRACE_MESSAGE_ID"] == replayed["new_message_id"]
    worker.run("release")
    assert len(producer.json("messages", "Jobs")["messages"]) == 1
    assert b"Jobs" in producer.run("watch", "--times", "1").stdout
