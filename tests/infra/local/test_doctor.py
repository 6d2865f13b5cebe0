"""`millrace doctor`: what is there, what is missing, and what to type."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from infra.local.dynamodb import ROOT
from millrace.cli import doctor
from millrace.cli.doctor import Check, checkout, examine


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A checkout whose definitions are older than their text, with a token that anybody can read."""
    for name in ("infra/definitions.json", "infra/queues/incidents.millrace", "template.yaml", "infra/local/run.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    os.utime(tmp_path / "infra" / "definitions.json", (1, 1))
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "token").write_text("x")
    (tmp_path / ".local" / "token").chmod(0o644)
    return tmp_path


def found(root: Path) -> dict[str, Check]:
    return {finding.name: finding for finding in examine(root)}


def test_a_stale_definition_and_an_open_token_are_named_with_their_remedy(broken: Path) -> None:
    findings = found(broken)
    assert (findings["definitions"].good, findings["definitions"].remedy) == (False, "millrace compile")
    assert (findings[".local/token"].good, findings[".local/token"].remedy) == (False, "chmod 600 .local/token")


def test_a_missing_engine_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.dynamodb.ROOT", Path("/nowhere"))
    assert found(ROOT)["DynamoDB Local"].remedy == "make engines"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("boto3", "no_such_package"))
    assert found(ROOT)["packages"].found == "missing: no_such_package"


def test_a_checkout_is_found_from_any_folder_of_it() -> None:
    assert checkout(ROOT / "tests" / "infra") == ROOT
    assert checkout(Path("/")) is None
