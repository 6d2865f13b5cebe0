"""`millrace doctor`: what is there, what is missing, and what to type."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.local.dynamodb import ROOT
from millrace.app.layout import App
from millrace.cli import doctor
from millrace.cli.doctor import Check, examine

EXAMPLE = App(ROOT / "infra" / "example")


@pytest.fixture
def app(tmp_path: Path) -> App:
    """A copy of the example."""
    example = ROOT / "infra" / "example"
    for name in ("queues", "commands"):
        shutil.copytree(example / name, tmp_path / name)
    return App(tmp_path)


def found(app: App) -> dict[str, Check]:
    return {finding.name: finding for finding in examine(app, dict(os.environ))}


def test_definitions_that_compile_are_counted(app: App) -> None:
    finding = found(app)["definitions"]
    assert (finding.good, finding.found) == (True, "6 queues, 3 webhooks")


@pytest.mark.parametrize("text", ["", "app A { queue", "app A { queue Q {} }"], ids=["nothing", "syntax", "type"])
def test_definitions_that_do_not_compile_are_reported(app: App, text: str) -> None:
    (app.queues / "payments.millrace").write_text(f"{text}\napp A {{ queue {{")
    assert not found(app)["definitions"].good


def test_a_command_that_nobody_registers_is_reported(app: App) -> None:
    (app.root / "commands" / "payments.py").unlink()
    finding = found(app)["definitions"]
    assert (finding.good, finding.remedy) == (False, "millrace compile")


def test_a_module_of_commands_that_cannot_be_imported_is_named(app: App) -> None:
    (app.root / "commands" / "payments.py").write_text("import no_such_package\n")
    finding = found(app)["definitions"]
    assert not finding.good
    assert "no_such_package" in finding.found
    assert "payments.py:1" in finding.found


def test_a_token_that_others_can_read_is_reported(app: App) -> None:
    app.home.mkdir()
    (app.home / "token").write_text("x")
    (app.home / "token").chmod(0o644)
    finding = found(app)[".local/token"]
    assert (finding.good, finding.remedy) == (False, "chmod 600 .local/token")


def test_a_missing_engine_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.dynamodb.PACKAGES", Path("/nowhere"))
    assert found(EXAMPLE)["DynamoDB Local"].remedy == "make engines"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("boto3", "no_such_package"))
    assert found(EXAMPLE)["packages"].found == "missing: no_such_package"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_findings_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    long = "a finding that goes on and on " * 8
    checks = [Check("short", good=True, found="x"), Check("a name of twenty-two", good=False, found=long, remedy=long)]
    monkeypatch.setattr(doctor, "examine", lambda app, environment: checks)
    monkeypatch.chdir(ROOT)
    ran = CliRunner(env={"COLUMNS": str(columns)}).invoke(doctor.doctor_command)
    lines = ran.output.splitlines()
    assert (ran.exit_code, lines[-1]) == (1, "1 to fix.")
    assert max(map(len, lines)) <= columns
    assert " ".join(line[26:].strip() for line in lines[1:-1]) == f"{long}{long}".strip()


def test_a_long_path_is_shown_without_its_middle() -> None:
    assert all(len(finding.found) < 60 for finding in examine(EXAMPLE, dict(os.environ)) if finding.good)
