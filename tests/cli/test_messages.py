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


#: The loop that the README showed before there was `millrace work`.
OLD_LOOP = """
for turn in 1 2 3; do
  eval "$(millrace dequeue Jobs --payload-out job.json)" && echo ran >> runs && millrace ack
done
"""


def test_a_loop_on_an_empty_queue_does_not_run_the_last_job_again(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    producer.run("enqueue", "Jobs", "1")
    worker.environment["PATH"] = f"{MILLRACE.parent}:{worker.environment['PATH']}"
    subprocess.run(
        ["bash", "-c", OLD_LOOP], env=worker.environment, cwd=worker.folder, timeout=PATIENCE, capture_output=True
    )
    assert (worker.folder / "runs").read_text().split() == ["ran"]


def test_a_dequeue_that_fails_leaves_no_claim_behind(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    for terminal, exit_code, queue in ((producer, Exit.DENIED, "Jobs"), (worker, Exit.NOTHING, "Jobz")):
        failed = terminal.run("dequeue", queue, "--payload-out", "job.json", exit_code=exit_code)
        assert failed.stdout.startswith(b"unset MILLRACE_QUEUE MILLRACE_CLAIM ")
        assert failed.stdout.endswith(b"; false\n")
