"""A new app has its own name, the version that made it, and compiles."""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from millrace.app.compile import compile_app
from millrace.app.layout import App
from millrace.app.skeleton import CannotMake, make_app


def test_a_new_app_compiles_and_bears_its_name(tmp_path: Path) -> None:
    written = make_app("corner-shop", tmp_path / "corner-shop")
    app = App(tmp_path / "corner-shop")
    assert app.root / "queues" / "incidents.millrace" in written
    assert compile_app(app, os.environ).findings == []
    stacks = tomllib.loads((app.root / "samconfig.toml").read_text())
    names = [stacks[stage]["deploy"]["parameters"]["stack_name"] for stage in ("dev", "staging", "prod")]
    assert names == ["corner-shop-dev", "corner-shop-staging", "corner-shop"]
    assert f"millrace=={version('millrace')}\n" in app.requirements.read_text()
    assert (app.root / "README.md").read_text().startswith("# corner-shop\n")


@pytest.mark.parametrize("name", ["", "Shop", "1shop", "shop_x", "../x", "s" * 60])
def test_a_name_that_no_stack_may_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotMake, match="lower-case"):
        make_app(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CannotMake, match="not empty"):
        make_app("shop", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
