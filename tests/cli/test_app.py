"""`millrace new` and what hands over to other programs: with which arguments, and what is said where it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.cli.main import main
from tests.app.apps import make


def millrace(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_new_says_what_it_wrote_and_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = millrace("new", "shop")
    assert made.exit_code == 0
    assert "shop/queues/incidents.millrace" in made.output
    assert "cd shop" in made.output
    assert "not empty" in millrace("new", "shop").output


@pytest.mark.parametrize("command", ["test", "deploy", "doctor"])
def test_outside_of_an_app_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    refused = millrace(command)
    assert refused.exit_code == 1
    assert "millrace new NAME" in refused.output


def test_tests_run_in_the_apps_folder_with_its_code_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = "from commands.orders import ship\n\ndef test_ship():\n    assert ship(1) == 1\n"
    app = make(tmp_path, {"tests/test_orders.py": passing})
    monkeypatch.chdir(app.root / "commands")
    assert millrace("test").exit_code == 0
    make(tmp_path, {"tests/test_orders.py": passing.replace("== 1", "== 2")})
    assert millrace("test").exit_code == 1
    assert millrace("test", "-k", "nothing").exit_code == 5


def test_deploy_builds_first_and_hands_the_rest_to_sam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make(tmp_path)
    monkeypatch.chdir(app.root)
    monkeypatch.setattr("millrace.app.tools.ensure_environment", lambda name: Path("/tools") / name)
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert millrace("deploy", "--env", "prod", "--guided").exit_code == 0
    build, sam = calls
    assert build[1:] == ["-m", "infra.build.artifact", "--app", str(app.root)]
    assert sam[:2] == ["/tools/sam/bin/sam", "deploy"]
    assert sam[sam.index("--config-env") + 1] == "prod"
    assert sam[-1] == "--guided"


def test_a_build_that_fails_is_not_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make(tmp_path, {"commands/orders.py": ""}).root)
    assert millrace("deploy").exit_code == 1
