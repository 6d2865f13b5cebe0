"""An app is found from anywhere inside it, and its code is what goes into the artifacts."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.local.dynamodb import ROOT
from millrace.app.layout import App, NoApp
from tests.app.apps import make


def test_an_app_is_found_from_any_folder_of_it(tmp_path: Path) -> None:
    app = make(tmp_path / "shop")
    below = app.root / "commands" / "deep"
    below.mkdir()
    assert App.find(below) == App.find(app.root) == app


def test_a_checkout_of_millrace_has_its_example() -> None:
    assert App.find(ROOT / "tests").root == ROOT / "infra" / "example"


def test_a_folder_without_queues_belongs_to_no_app(tmp_path: Path) -> None:
    with pytest.raises(NoApp, match="millrace new NAME"):
        App.find(tmp_path)


def test_code_is_commands_packages_and_modules_and_nothing_else(tmp_path: Path) -> None:
    files = (
        "shop/__init__.py",
        "prices.py",
        "data/x.csv",
        "tests/test_x.py",
        ".venv/x.py",
        "conftest.py",
        "venv/__init__.py",
    )
    app = make(tmp_path, dict.fromkeys(files, ""))
    assert [path.name for path in app.code()] == ["commands", "prices.py", "shop"]
