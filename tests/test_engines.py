"""The engines of a run: none before a test asks, one of each kind after."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.engine_process import EngineMissing, EngineProcess
from tests.engines import ADDRESS, KINDS, SharedEngines, shared_engine

ROOT = Path(__file__).parents[1]
#: Says that it is Java 17, and leaves a mark when it is asked for anything else.
JAVA = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "17.0.1"' >&2; exit 0; }
touch "$STARTED"
"""


class Engine(EngineProcess):
    """Counts its starts."""

    started = stopped = 0

    def start(self) -> Engine:
        Engine.started += 1
        return self

    def stop(self) -> None:
        Engine.stopped += 1


def missing() -> EngineProcess:
    raise EngineMissing("run `make engines`")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedEngines]:
    monkeypatch.setattr(Engine, "started", 0)
    monkeypatch.setattr(Engine, "stopped", 0)
    monkeypatch.setitem(KINDS, "dynamodb", Engine)
    monkeypatch.setitem(KINDS, "ministack", missing)
    shared = SharedEngines()
    monkeypatch.setenv(ADDRESS, shared.address)
    yield shared
    if shared._thread.is_alive():
        shared.stop()


def test_an_engine_starts_with_the_first_test_that_asks_and_ends_with_the_run(shared: SharedEngines) -> None:
    assert Engine.started == 0
    assert shared_engine("dynamodb") == shared_engine("dynamodb")
    assert Engine.started == 1
    shared.stop()
    assert Engine.stopped == 1


def test_a_missing_engine_says_to_each_test_how_to_bring_it(shared: SharedEngines) -> None:
    for _ in range(2):
        with pytest.raises(EngineMissing, match="make engines"):
            shared_engine("ministack")
    assert shared_engine("dynamodb").startswith("http://127.0.0.1:")


def test_a_formatters_tests_start_no_java(tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"JAVA_HOME": str(java.parents[1]), "STARTED": str(tmp_path / "started")}
    del environment[ADDRESS]

    file = "tests/definitions/language/test_formatter.py"
    formatting = [sys.executable, "-m", "pytest", file, "-k", "comment", "-n", "0"]
    ran = subprocess.run(formatting, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert not (tmp_path / "started").exists()
