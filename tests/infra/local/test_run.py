"""`make run`: the first webhook, a second one, large bodies, Ctrl-C, and the data afterwards."""

from __future__ import annotations

import os
import random
import re
import socket
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from infra.local.dynamodb import ROOT
from infra.local.functions import CannotRun
from infra.local.run import demand_free, only_one
from millrace.cli.main import main
from tests.infra.local.private import leaks, logs_under, send_private_things
from tests.infra.local.stack import Stack, alive, descendants

Start = Callable[..., Stack]
#: As the README writes it.
EXAMPLE = ROOT / "infra" / "example"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Stack] = []

    def run(*options: str) -> Stack:
        stack = Stack(tmp_path / "home", *options)
        started.append(stack)
        return stack

    yield run
    for stack in started:
        stack.end()
        if stack.process.stdout:
            stack.process.stdout.close()


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="in-process"), pytest.param(("--lambda",), id="under-awslambdaric", marks=pytest.mark.deploy)],
)
def test_a_webhook_is_worked_off_and_survives_a_restart(start: Start, options: tuple[str, ...]) -> None:
    stack = start(*options)
    stack.wait_for("done ")
    assert '"incident_id": "pagerduty-Q' in stack.seen
    stack.wait_for("Ctrl-C")

    assert stack.get("/admin/queues")[0] == 200
    metrics = httpx.get(f"{stack.url}/metrics")
    assert (metrics.status_code, "millrace_store_up 1.0" in metrics.text) == (200, True)
    counted = 'millrace_runs_total{outcome="succeeded",queue="WebhookIngress"} 1.0' in metrics.text
    assert counted is not bool(options), "runs are counted where they run"
    run_the_readmes_commands(stack)
    run_without_settings(stack)
    noise = "".join(random.Random(7).choices(string.printable, k=100_000))
    status, answer = stack.send({"id": "LARGE", "title": noise, "urgency": "low"})
    assert status == 202, answer
    done = stack.await_done(answer["message_id"])
    assert any((stack.home / "s3").rglob("*")), "a large body lies in S3"

    hidden = send_private_things(stack)

    running = descendants(stack.process.pid)
    assert len(running) >= 3
    rest = stack.stop()
    assert "Stopped." in rest
    assert [pid for pid in running if alive(pid)] == []
    logs = {"standard output": stack.seen + rest, **logs_under(stack.home)}
    for told in ("webhook_accepted", "webhook_refused", "run_controlled", answer["message_id"]):
        assert told in logs["functions.log"], "the log to be searched tells of all this"
    assert leaks(logs, hidden) == []
    checked = CliRunner().invoke(main, ["check-history", str(stack.home / "functions.log")])
    assert checked.exit_code == 0, checked.output

    again = start(*options, "--no-tour")
    again.wait_for("Ctrl-C")
    _, found = again.get(f"/v1/queues/WebhookIngress/messages/{answer['message_id']}")
    assert found == done
    assert again.get(f"/v1/queues/WebhookIngress/messages/{answer['message_id']}/body")[0] == 200
    status, repeated = again.send({"id": "LARGE", "title": noise, "urgency": "low"})
    assert (status, repeated["message_id"]) == (200, answer["message_id"])
    again.stop()


def run_the_readmes_commands(stack: Stack) -> None:
    """What a reader types while `make run` runs, on this stack's folder and ports."""
    readme = (ROOT / "README.md").read_text("utf-8")
    block = next(found for found in re.findall(r"```console\n(.*?)```", readme, re.S) if "millrace send" in found)
    script = re.sub(r"^\$ ", "", block, flags=re.M)
    script = script.replace("$PWD/.venv-run/bin", str(Path(sys.executable).parent))
    folder = stack.home.parent / "reader"  # stands for the clone: the example's files, this stack's .local
    folder.mkdir()
    for name, target in {".local": stack.home, **{part: EXAMPLE / part for part in ("queues", "commands")}}.items():
        (folder / name).symlink_to(target)
    shell = ["bash", "-euo", "pipefail", "-c", script]
    ran = subprocess.run(shell, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for shown in ("202", "invoice.paid", "WebhookIngress"):
        assert shown in ran.stdout


def run_without_settings(stack: Stack) -> None:
    """`millrace` in the folder of a stack, or below it, with nothing set: API, token and table are found."""
    below = stack.home.parent / "below"
    below.mkdir()
    (stack.home.parent / ".local").symlink_to(stack.home)
    for words in (["queues"], ["tokens", "create", "mine", "-s", "read"], ["tokens", "list"]):
        done = subprocess.run(
            [sys.executable, "-m", "millrace.cli", *words],
            cwd=below,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "shared")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_a_leak_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "dynamodb").mkdir()
    (tmp_path / "dynamodb" / "data").write_text("secret")
    (tmp_path / "functions.log").write_text('{"level":"INFO"}\n{"body":"secret"}\n')
    assert leaks(logs_under(tmp_path), ["secret"]) == ['functions.log:2: \'secret\' in {"body":"secret"}']


def test_token_and_secrets_are_readable_by_their_owner_only(start: Start) -> None:
    stack = start("--no-tour")
    stack.wait_for("Ctrl-C")
    for name in ("token", "secrets.json"):
        assert (stack.home / name).stat().st_mode & 0o777 == 0o600
    assert not re.search(r"mrt_[a-z2-7]{16}_", stack.seen)
    stack.stop()


def test_a_taken_port_is_named_with_the_option_that_changes_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotRun, match=rf"Port {port} for the gateway is taken: .* --port N"):
            demand_free(port, "--port", "the gateway")


def test_two_stacks_do_not_share_a_folder(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(CannotRun, match="already runs here as process"), only_one(tmp_path):
        pass
