"""`millrace doctor`: what is there, what is missing, and what to type."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.local.dynamodb import ROOT
from millrace.cli import doctor
from millrace.cli.doctor import Check, checkout, examine


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The parts of a checkout that the definitions and the private files need."""
    for name in ("template.yaml", "infra/definitions.json", "infra/local/run.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "infra" / "queues", tmp_path / "infra" / "queues")
    return tmp_path


def found(root: Path) -> dict[str, Check]:
    return {finding.name: finding for finding in examine(root)}


def test_definitions_are_compared_by_what_they_say_not_by_when_they_were_written(clone: Path) -> None:
    os.utime(clone / "infra" / "definitions.json", (1, 1))
    assert found(clone)["definitions"].good
    source = clone / "infra" / "queues" / "incidents.millrace"
    source.write_text(source.read_text("utf-8").replace("max_attempts: 5", "max_attempts: 6"), "utf-8")
    os.utime(source, (0, 0))
    finding = found(clone)["definitions"]
    assert (finding.good, finding.remedy) == (False, "millrace compile")


@pytest.mark.parametrize("text", ["", "app A { queue", "app A { queue Q {} }"], ids=["nothing", "syntax", "type"])
def test_definitions_that_do_not_compile_are_reported(clone: Path, text: str) -> None:
    (clone / "infra" / "queues" / "incidents.millrace").write_text(text)
    assert not found(clone)["definitions"].good


def test_a_missing_compiled_file_is_reported(clone: Path) -> None:
    (clone / "infra" / "definitions.json").unlink()
    assert not found(clone)["definitions"].good


def test_a_token_that_others_can_read_is_reported(clone: Path) -> None:
    (clone / ".local").mkdir()
    (clone / ".local" / "token").write_text("x")
    (clone / ".local" / "token").chmod(0o644)
    finding = found(clone)[".local/token"]
    assert (finding.good, finding.remedy) == (False, "chmod 600 .local/token")


def test_a_missing_engine_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.dynamodb.ROOT", Path("/nowhere"))
    assert found(ROOT)["DynamoDB Local"].remedy == "make engines"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("boto3", "no_such_package"))
    assert found(ROOT)["packages"].found == "missing: no_such_package"


def test_a_checkout_is_found_from_any_folder_of_it() -> None:
    assert checkout(ROOT / "tests" / "infra") == ROOT
    assert checkout(Path("/")) is None


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_findings_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    long = "a finding that goes on and on " * 8
    checks = [Check("short", good=True, found="x"), Check("a name of twenty-two", good=False, found=long, remedy=long)]
    monkeypatch.setattr(doctor, "examine", lambda root: checks)
    monkeypatch.chdir(ROOT)
    ran = CliRunner(env={"COLUMNS": str(columns)}).invoke(doctor.doctor_command)
    lines = ran.output.splitlines()
    assert (ran.exit_code, lines[-1]) == (1, "1 to fix.")
    assert max(map(len, lines)) <= columns
    assert " ".join(line[26:].strip() for line in lines[1:-1]) == f"{long}{long}".strip()


def test_a_long_path_is_shown_without_its_middle() -> None:
    assert all(len(finding.found) < 60 for finding in examine(ROOT) if finding.good)
