"""The job makes a page from the tables and from a lake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from functions.bulk_enqueue import job
from millrace.model.errors import InvalidField
from millrace.spark.data.lake_files import lake_folder
from millrace.spark.page import make
from tests.spark.data.test_lake import merge, options
from tests.spark.data.test_read import live_a_little
from tests.spark.data.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


def test_the_job_makes_a_page_of_the_lake_and_of_the_tables(
    spark: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job, "system_clock", world.clock)
    world.forward(100)
    live_a_little(world)
    merge(lake_folder(spark, str(tmp_path / "lake")), world, world.export_changes())
    given = ["--action", "report", *options(world, tmp_path)]
    assert job.main([*given, "--run", "lake", "--sla-seconds", "60"]) == 0
    assert job.main([*given[:2], *given[4:], "--run", "tables", "--queue", "Jobs", "--tenant", "acme"]) == 0
    for run, title in (("lake", "Every queue"), ("tables", "Queue Jobs")):
        place = tmp_path / "reports" / run
        summary = json.loads((place / "summary.json").read_text())
        page = (place / "report.html").read_text()
        assert summary["counts"]["dead"] == 1
        assert sum(summary["counts"].values()) == len(world.known)
        assert f"<h1>{title}</h1>" in page
        assert "ConnectionError" in page
    assert job.main([*given, "--where", "no such", "--run", "wrong"]) == 2
    assert "Spark SQL" in capsys.readouterr().err


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "find_spec", lambda name: None)
    none: Any = None
    with pytest.raises(InvalidField, match="matplotlib"):
        make.make_page(none, none, "", "r")
