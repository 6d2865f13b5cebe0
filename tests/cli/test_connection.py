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


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path) -> None:
    terminal = Terminal.bare(tmp_path)
    said = terminal.run("queues", exit_code=Exit.DENIED).stderr.decode()
    assert said.startswith("Error: No token: set MILLRACE_TOKEN")
    terminal.environment["MILLRACE_TOKEN"] = "mrt_x"
    for url, code in (("http://127.0.0.1:9", Exit.NOT_NOW), ("nonsense", Exit.NOT_NOW), ("http://x:port", Exit.USAGE)):
        terminal.environment["MILLRACE_URL"] = url
        said = terminal.run("queues", exit_code=code).stderr.decode()
        assert "MILLRACE_URL" in said
        assert "Traceback" not in said
