"""Two consumers with killed and paused processes: nothing lost, stale acks refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from infra.local.dynamodb import ROOT
from millrace.client import Client
from tests.pull.stack import Stack


class Worker:
    """A worker process, in the test's hand."""

    def __init__(self, stack: Stack, token: str, kind: str) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
            "MILLRACE_URL": stack.url,
            "MILLRACE_TOKEN": token,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pull.worker_process", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
        )

    def heard(self, what: str) -> dict[str, Any]:
        """The next line that says so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found["what"] == what:
                return found
        raise AssertionError(f"the worker ended without {what!r}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def token(stack: Stack, tenant: str) -> str:
    return stack.token(tenant)


@pytest.fixture
def client(stack: Stack, token: str) -> Iterator[Client]:
    with Client(stack.url, token) as made:
        yield made


def test_what_a_killed_worker_held_is_finished_by_another(stack: Stack, client: Client, token: str) -> None:
    held = client.enqueue("Quick", "first")
    doomed = Worker(stack, token, "hold")
    assert doomed.heard("started")["id"] == held.message_id
    doomed.signal(signal.SIGKILL)
    doomed.process.wait()
    others = [client.enqueue("Quick", number) for number in range(5)]
    heir = Worker(stack, token, "work")
    done = {heir.heard("done")["id"] for _ in range(6)}
    assert done == {held.message_id, *(receipt.message_id for receipt in others)}
    status = client.status("Quick", held.message_id)
    assert (status["status"], status["result"]) == ("done", heir.process.pid)
    heir.signal(signal.SIGTERM)
    assert heir.process.wait() == 0
    doomed.end()
    heir.end()


def test_a_worker_paused_past_its_lease_is_refused_and_changes_nothing(
    stack: Stack, client: Client, token: str
) -> None:
    receipt = client.enqueue("Quick", "slow")
    sleeper = Worker(stack, token, "hold")
    first = sleeper.heard("started")
    sleeper.signal(signal.SIGSTOP)  # its heartbeat stops with it
    heir = Worker(stack, token, "work")
    second = heir.heard("done")
    assert second["version"] > first["version"]
    sleeper.go_on()
    sleeper.signal(signal.SIGCONT)
    assert sleeper.heard("lost")["id"] == receipt.message_id
    status = client.status("Quick", receipt.message_id)
    assert (status["status"], status["result"]) == ("done", heir.process.pid)
    sleeper.end()
    heir.end()
