"""The whole life of a message from two terminals, by the command line alone: the real binary, the running functions."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import CREDENTIALS
from millrace.cli.connection import Exit
from tests.pull.stack import Stack

Ended = subprocess.CompletedProcess[bytes]
MILLRACE = Path(sys.executable).parent / "millrace"
PATIENCE = 120


class Terminal:
    """A shell of its own: its environment, and the exports that a dequeue gave it."""

    def __init__(self, stack: Stack, token: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **CREDENTIALS,
            **stack.environment,
            "MILLRACE_URL": stack.url,
            "MILLRACE_TOKEN": token,
        }

    def run(
        self, *words: str, stdin: bytes | None = None, exit_code: Exit = Exit.OK
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [MILLRACE, *words],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            timeout=PATIENCE,
        )
        assert done.returncode == exit_code, (words, done.stdout, done.stderr)
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--output", "json").stdout)

    def evaluate(self, exports: bytes) -> None:
        """As `eval "$(…)"` does."""
        for line in exports.decode().splitlines():
            word, assignment = shlex.split(line)
            assert word == "export"
            name, _, value = assignment.partition("=")
            self.environment[name] = value


@pytest.fixture
def terminals(stack: Stack, tenant: str, tmp_path: Path) -> tuple[Terminal, Terminal]:
    """A producer's and a worker's, each with a token of its own, made by the command line."""
    made = []
    for name, scopes in (("producer", ("enqueue", "read", "operate")), ("worker", ("consume", "read"))):
        words = [word for scope in scopes for word in ("--scope", scope)]
        bare = Terminal(stack, "", tmp_path)
        token = bare.json("tokens", "create", name, *words, "--tenant", tenant)["token"]
        made.append(Terminal(stack, token, tmp_path))
    return made[0], made[1]


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
    worker.run("dequeue", "Jobs", exit_code=Exit.NOTHING)
    producer.run("resume", "Jobs")
    worker.evaluate(worker.run("dequeue", "Jobs", "--wait", "10").stderr)
    assert worker.environment["MILLRACE_MESSAGE_ID"] == replayed["new_message_id"]
    worker.run("release")
    assert len(producer.json("messages", "Jobs")["messages"]) == 1
    assert b"Jobs" in producer.run("watch", "--times", "1").stdout


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


def test_tokens_are_listed_and_revoked(stack: Stack, tmp_path: Path, tenant: str) -> None:
    terminal = Terminal(stack, "", tmp_path)
    made = terminal.json("tokens", "create", "short-lived", "-s", "read", "-t", tenant, "--days", "1")
    terminal.environment["MILLRACE_TOKEN"] = made["token"]
    terminal.run("queues")
    assert made["id"] in {token["id"] for token in terminal.json("tokens", "list")}
    terminal.run("tokens", "revoke", made["id"])
    terminal.run("queues", exit_code=Exit.DENIED)
    terminal.run("tokens", "revoke", "aaaaaaaaaaaaaaaa", exit_code=Exit.NOTHING)
