"""Exit codes that a script can tell apart."""

from __future__ import annotations

from pathlib import Path

from millrace.cli.connection import Exit
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack


def test_what_a_script_can_tell_apart(terminals: tuple[Terminal, Terminal], stack: Stack, tmp_path: Path) -> None:
    producer, worker = terminals
    producer.run("enqueue", "Jobz", "1", exit_code=Exit.NOTHING)
    producer.run("enqueue", "Jobs", "{nonsense", exit_code=Exit.USAGE)
    producer.run("enqueue", "Jobs", "1", "-p", "99999", exit_code=Exit.FAILED)
    worker.run("ack", "c1.x.y", "--queue", "Jobs", exit_code=Exit.FAILED)
    Terminal(stack, "", tmp_path).run("queues", exit_code=Exit.DENIED)
    Terminal(stack, "mrt_wrong", tmp_path).run("queues", exit_code=Exit.DENIED)
    producer.environment["MILLRACE_URL"] = "http://127.0.0.1:9"
    producer.run("queues", exit_code=Exit.NOT_NOW)
