"""`millrace work`: a worker out of any program. The real binary, real signals, the running functions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.cli.connection import Exit
from tests.cli.terminal import MILLRACE, PATIENCE, Terminal

Start = Callable[..., subprocess.Popen[bytes]]
WORK = """
case "$(cat)" in
  *good*) echo "{\\"attempt\\": $MILLRACE_ATTEMPT}";;
  *never*) exit 64;;
  *) echo "no $MILLRACE_MESSAGE_ID" >&2; exit 3;;
esac
"""
#: Says that it has begun, then works until it is let go.
SLOW = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; cat > taken"


def until(seen: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers; a test that fails leaves neither them nor their program behind."""
    started: list[subprocess.Popen[bytes]] = []

    def start(worker: Terminal, *words: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([MILLRACE, "work", *words], env=worker.environment, cwd=worker.folder))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    if started and (tmp_path / "begun").exists():
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.killpg(int((tmp_path / "begun").read_text()), signal.SIGKILL)


def begun(folder: Path) -> int:
    """The program's process, once it has begun."""
    until(lambda: (folder / "begun").exists() and (folder / "begun").read_text().strip(), "it never began")
    return int((folder / "begun").read_text())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_exit_code_decides(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    good, bad, never = (
        producer.json("enqueue", "Jobs", f'"{word}"')["message_id"] for word in ("good", "bad", "never")
    )
    command = ("--drain", "--result", "--reject-on", "64", "--delay", "3600", "-c", "3", "--", "sh", "-c", WORK)
    said = worker.run("work", "Jobs", *command).stderr.decode()
    assert f"{good} attempt 1: done" in said
    found = producer.json("status", "Jobs", good)
    assert (found["status"], found["result"]) == ("done", {"attempt": 1})
    found = producer.json("status", "Jobs", bad)
    assert found["status"] == "scheduled"
    assert (found["history"][0]["error_type"], found["history"][0]["error"]) == ("Exit3", f"no {bad}")
    assert producer.json("status", "Jobs", never)["dead_letter"]["reason"] == "rejected"


def test_one_message_and_its_exit_code(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    worker.run("work", "Jobs", "--once", "--", "true", exit_code=Exit.NOTHING)
    producer.run("enqueue", "Jobs", "1")
    producer.run("enqueue", "Jobs", "2")
    worker.run("work", "Jobs", "--once", "--file", "--", "sh", "-c", 'cp "$MILLRACE_PAYLOAD" seen')
    assert (worker.folder / "seen").read_bytes() == b"1"
    worker.run("work", "Jobs", "--once", "--", "false", exit_code=Exit.FAILED)
    worker.run("work", "Jobs", "--once", "--", "./no-such-program", exit_code=Exit.USAGE)
    worker.run("work", "Jobz", "--", "true", exit_code=Exit.NOTHING)


def test_a_stop_lets_the_program_finish(terminals: tuple[Terminal, Terminal], start: Start) -> None:
    producer, worker = terminals
    sent = [producer.json("enqueue", "Jobs", str(n))["message_id"] for n in range(2)]
    working = start(worker, "Jobs", "--", "sh", "-c", SLOW)
    begun(worker.folder)
    working.send_signal(signal.SIGTERM)
    (worker.folder / "go").touch()
    assert working.wait(PATIENCE) == 0
    assert (worker.folder / "taken").read_bytes() == b"0"
    assert [producer.json("status", "Jobs", one)["status"] for one in sent] == ["done", "ready"]


def test_a_killed_worker_loses_nothing(terminals: tuple[Terminal, Terminal], start: Start) -> None:
    producer, worker = terminals
    sent = producer.json("enqueue", "Quick", "7")["message_id"]
    working = start(worker, "Quick", "--", "sh", "-c", SLOW)
    pid = begun(worker.folder)
    working.kill()
    working.wait()
    os.killpg(pid, signal.SIGKILL)
    worker.run("work", "Quick", "--once", "--wait", "20", "--", "sh", "-c", "echo $MILLRACE_ATTEMPT > attempt")
    assert (worker.folder / "attempt").read_text() == "2\n"
    assert producer.json("status", "Quick", sent)["status"] == "done"


def test_the_program_is_ended_when_its_claim_is_lost(terminals: tuple[Terminal, Terminal], start: Start) -> None:
    producer, worker = terminals
    sent = producer.json("enqueue", "Jobs", "7")["message_id"]
    working = start(worker, "Jobs", "--once", "--lease", "1.5", "--", "sh", "-c", SLOW)
    pid = begun(worker.folder)
    producer.run("claims", "Jobs", "--break", sent)
    assert working.wait(PATIENCE) == Exit.STALE
    assert gone(pid)
    assert producer.json("status", "Jobs", sent)["status"] == "ready"


def test_a_command_of_the_app_runs_in_the_shells_loop(terminals: tuple[Terminal, Terminal], tmp_path: Path) -> None:
    """The very function that a worker of the deployment would call."""
    producer, worker = terminals
    (tmp_path / "own_commands.py").write_text(
        "from millrace import Context, Reject, command\n\n\n"
        "@command('Thing.Count')\n"
        "async def count(given, context):\n"
        "    if given == 'never':\n"
        "        raise Reject('no')\n"
        "    return {'attempt': context.attempt, 'given': given}\n"
    )
    good, never = (producer.json("enqueue", "Jobs", f'"{word}"')["message_id"] for word in ("good", "never"))
    environment = {**worker.environment, "COMMANDS": "own_commands"}
    command = [str(MILLRACE), "work", "Jobs", "--drain", "--command"]
    subprocess.run([*command, "Thing.Count"], env=environment, cwd=tmp_path, check=True, timeout=PATIENCE)
    found = producer.json("status", "Jobs", good)
    assert (found["status"], found["result"]) == ("done", {"attempt": 1, "given": "good"})
    assert producer.json("status", "Jobs", never)["status"] == "dead"
    with (tmp_path / "own_commands.py").open("a") as more:
        more.write("\n\n@command('Thing.List', batch=10)\ndef every(batch):\n    return [len(batch)] * len(batch)\n")
    sent = [producer.json("enqueue", "Jobs", "1")["message_id"] for _ in range(2)]
    subprocess.run([*command, "Thing.List"], env=environment, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert [producer.json("status", "Jobs", one)["result"] for one in sent] == [2, 2]
    unknown = subprocess.run([*command, "Thing.Other"], env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert (unknown.returncode, b"Thing.Other" in unknown.stderr) == (2, True)
    worker.run("work", "Jobs", exit_code=Exit(2))
