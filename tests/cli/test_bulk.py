"""`millrace bulk`: the job, with the local stack's places and the app's definitions, or a sentence about what lacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.local.places import Places
from millrace.app.layout import App
from millrace.cli.connection import Exit
from millrace.cli.main import main
from tests.app.apps import make


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("number\n1\n")
    return make(tmp_path)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands in place of which nothing is run, but for the app's own modules."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    run = subprocess.run

    def record(command: list[str], **options: Any) -> Any:
        if "functions.bulk_enqueue.job" not in command:
            return run(command, **options)
        calls.append((command, options["env"]))
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", record)
    return calls


def bulk(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bulk", "Orders", *arguments])


def test_the_job_gets_the_local_stacks_places_and_the_apps_definitions(
    app: App, started: list[tuple[list[str], dict[str, str]]]
) -> None:
    app.home.mkdir()
    Places(app, app.home, "http://127.0.0.1:1", "http://127.0.0.1:2").publish("http://127.0.0.1:3")
    assert bulk("rows.csv", "--idempotency-key", "number").exit_code == 1  # as the job ended
    ((command, environment),) = started
    given = dict(zip(command[3::2], command[4::2], strict=True))
    table = json.loads((app.home / "table.json").read_text())
    assert given["--format"] == "csv"
    assert given["--definitions"] == str(app.definitions)
    assert given["--dynamodb-endpoint"] == "http://127.0.0.1:1"
    assert given["--s3-endpoint"] == "http://127.0.0.1:2"
    assert (given["--queue-table"], given["--dead-letter-table"]) == (table["name"], table["dead_letters"])
    assert given["--idempotency-key"] == "number"
    assert (environment["AWS_ACCESS_KEY_ID"], Path(environment["JAVA_HOME"], "bin", "java").exists()) == ("local", True)


def test_without_a_local_stack_one_is_asked_for(app: App) -> None:
    refused = bulk("rows.csv")
    assert (refused.exit_code, "millrace dev" in refused.output) == (Exit.NOT_NOW, True)


def test_a_source_that_does_not_say_what_it_is_is_asked_about(app: App) -> None:
    app.home.mkdir()
    Places(app, app.home, "http://127.0.0.1:1", "").publish("http://127.0.0.1:3")
    (app.root / "rows.txt").touch()
    refused = bulk("rows.txt")
    assert (refused.exit_code, "--format" in refused.output) == (2, True)


def test_without_spark_the_line_that_installs_it_is_said(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.cli.bulk.find_spec", lambda _name: None)
    assert "pip install 'millrace[spark]'" in bulk("rows.csv").output
