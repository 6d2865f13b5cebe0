"""A message by the command line alone: two terminals, the real binary, the running functions."""

from __future__ import annotations

import json
import subprocess

from millrace.cli.connection import Exit
from tests.cli.terminal import MILLRACE, PATIENCE, Terminal


def test_a_message_from_enqueue_to_done(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    receipt = producer.json(
        "enqueue", "Jobs", '{"n": 1}', "-i", "order-1", "-l", "red", "--correlation-id", "trace;rm -rf x"
    )
    assert receipt["status"] == "ready"
    assert producer.json("enqueue", "Jobs", '{"n": 1}', "-i", "order-1")["duplicate"]
    taken = worker.run("dequeue", "Jobs", "--lease", "60", "--owner", "it's me", "--payload-out", "job.json")
    worker.evaluate(taken.stdout)
    assert json.loads((worker.folder / "job.json").read_bytes()) == {"n": 1}
    (claim,) = producer.json("claims", "Jobs")["claims"]
    assert (claim["owner"], claim["message_id"]) == ("it's me", receipt["message_id"])
    worker.run("extend", "--lease", "120")
    worker.run("ack", "--result", '{"made": 7}')
    worker.run("ack", "--result", '{"made": 7}')
    status = producer.json("status", "Jobs", receipt["message_id"])
    assert (status["status"], status["result"]) == ("done", {"made": 7})
    producer.run("dequeue", "Jobs", exit_code=Exit.DENIED)
    worker.run("dequeue", "Jobs", exit_code=Exit.NOTHING)


def test_a_terminal_that_waits_gets_what_another_one_sends(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    waiting = subprocess.Popen(
        [MILLRACE, "dequeue", "Jobs", "--wait", "20", "--output", "json"],
        stdout=subprocess.PIPE,
        env=worker.environment,
        cwd=worker.folder,
    )
    receipt = producer.json("enqueue", "Jobs", '"hello"')
    shown, _ = waiting.communicate(timeout=PATIENCE)
    assert json.loads(shown)["message_id"] == receipt["message_id"]
