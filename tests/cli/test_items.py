"""`millrace items`, as a script and a small team use it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.cli.connection import Exit
from millrace.cli.items import watch_folder
from millrace.cli.main import main
from millrace.client import BadRequest, Unreachable
from millrace.items.claims import ItemFilter
from tests.cli.terminal import Terminal
from tests.items.test_claims import a_chain
from tests.items.test_folder import write

ME = str(os.getpid())


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["items", *arguments])
    assert result.exit_code == code, result.output
    return result


def items(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json").output)["items"]
    return found


def test_a_script_works_a_folder_off(tmp_path: Path) -> None:
    a_chain(tmp_path)
    folder = str(tmp_path)
    assert [item["id"] for item in items("ready", folder)] == ["a"]
    (claimed,) = items("claim", folder, "--pid", ME)
    assert (claimed["id"], claimed["item"]["text"]) == ("a", "Do it.")
    held = next(item for item in items("list", folder) if item["id"] == "a")
    assert (held["lock"]["pid"], held["lock"]["token"]) == (os.getpid(), None), "a token is its holder's alone"
    run("claim", folder, "--pid", ME, code=Exit.NOTHING)
    run("done", folder, "a", "--token", "wrong", code=Exit.STALE)
    run("done", folder, "a", "--token", claimed["token"])
    (second,) = items("claim", folder, "--pid", ME)
    run("release", folder, second["id"], "--pid", ME)
    run("release", folder, second["id"], "--pid", ME, code=Exit.STALE)
    assert [item["id"] for item in items("ready", folder)] == ["b"]
    assert "waits for b" in run("list", folder).output
    assert [item["id"] for item in items("list", folder, "--state", "done")] == ["a"]


def test_a_claim_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    a_chain(tmp_path)
    (claimed,) = items("claim", str(tmp_path), "--pid", "4194304")  # no system has a process of this number
    (again,) = items("claim", str(tmp_path), "--pid", ME)
    assert again["id"] == claimed["id"]
    run("done", str(tmp_path), "a", "--token", claimed["token"], code=Exit.STALE)


def test_what_becomes_ready_is_enqueued_once(terminals: tuple[Terminal, Terminal], tmp_path: Path) -> None:
    producer, worker = terminals
    a_chain(tmp_path)
    write(tmp_path, "z.md", "id: z\nstatus: pending\npriority: high\nproject: p\nlabels: [x]", "Now.\n")
    sent = producer.run("items", "enqueue", str(tmp_path), "-q", "Jobs").stdout.decode()
    assert [line.split()[0] for line in sent.splitlines()] == ["z", "a"]
    assert producer.run("items", "enqueue", str(tmp_path), "-q", "Jobs").stdout == b""
    first = worker.json("dequeue", "Jobs")
    assert json.loads(base64.b64decode(first["body_base64"])) == {
        "id": "z", "status": "pending", "priority": "high", "project": "p", "labels": ["x"], "text": "Now.",
    }  # fmt: skip
    write(tmp_path, "a.md", "id: a\nstatus: done")
    again = producer.run("items", "enqueue", str(tmp_path), "-q", "Jobs").stdout.decode()
    assert [line.split()[0] for line in again.splitlines()] == ["b"]
    (tmp_path / ".millrace" / "enqueued-Jobs.txt").unlink()  # a crash before it was noted
    repeated = producer.run("items", "enqueue", str(tmp_path), "-q", "Jobs").stdout.decode()
    assert repeated.count("(was there)") == 2


def test_an_item_that_the_queue_refuses_holds_nothing_up(terminals: tuple[Terminal, Terminal], tmp_path: Path) -> None:
    producer, _ = terminals
    write(tmp_path, "a.md", "id: a\nstatus: pending\npriority: 100000\n")
    write(tmp_path, "b.md", "id: b\nstatus: pending")
    ended = producer.run("items", "enqueue", str(tmp_path), "-q", "Jobs", exit_code=Exit.FAILED)
    assert [line.split()[0] for line in ended.stdout.decode().splitlines()] == ["b"]
    assert b"a: 4" in ended.stderr


class Over(Exception):
    """The test has seen enough."""


class FakeClient:
    """Says what the test told it to, for each call in turn; then accepts."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes]] = []

    def enqueue(self, queue: str, body: bytes, **options: Any) -> Any:
        self.sent.append((options["idempotency_key"], body))
        if self.answers:
            raise self.answers.pop(0)
        return SimpleNamespace(message_id="m", duplicate=False)


def watch(client: FakeClient, folder: Path, *between: Callable[[], object]) -> list[str]:
    """Watch a folder, with a change between two looks; the keys that were sent."""
    changes = iter(between)

    def wait() -> None:
        try:
            next(changes)()
        except StopIteration:
            raise Over from None

    with pytest.raises(Over):
        watch_folder(client, folder, "Jobs", ItemFilter(), wait)  # type: ignore[arg-type]
    return [key for key, _ in client.sent]


def test_watching_hands_over_what_becomes_ready_and_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    a_chain(tmp_path)
    client = FakeClient(Unreachable("down", sent=True))
    assert watch(client, tmp_path, lambda: None, lambda: write(tmp_path, "a.md", "id: a\nstatus: done")) == [
        "a",
        "a",
        "b",
    ]


def test_watching_sends_a_refused_item_again_when_its_file_has_changed(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "id: a\nstatus: pending")
    client = FakeClient(BadRequest(400, "invalid_message", "no", "c", {}))
    changed = watch(client, tmp_path, lambda: None, lambda: write(tmp_path, "a.md", "id: a\nstatus: pending\nsize: 1"))
    assert changed == ["a", "a"]


def test_what_somebody_holds_here_is_not_enqueued(tmp_path: Path) -> None:
    a_chain(tmp_path)
    (claimed,) = items("claim", str(tmp_path), "--pid", ME)
    given_back = ("release", str(tmp_path), "a", "--token", claimed["token"])
    client = FakeClient()
    seen: list[int] = []

    def release() -> None:
        seen.append(len(client.sent))
        run(*given_back)

    assert watch(client, tmp_path, release) == ["a"]
    assert seen == [0]
