"""`millrace compile`, `fmt` and `explain`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millrace.cli.main import main
from tests.definitions.writing import queue_text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "queues").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(project: Path, text: str) -> Path:
    path = project / "queues" / "jobs.millrace"
    path.write_text(text)
    return path


def millrace(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_compile_writes_and_check_notices_a_change(project: Path) -> None:
    write(project, queue_text("shards: 2"))
    assert millrace("compile", "--check").exit_code == 1
    assert millrace("compile").exit_code == 0
    assert millrace("compile", "--check").exit_code == 0
    write(project, queue_text("shards: 3"))
    stale = millrace("compile", "--check")
    assert stale.exit_code == 1
    assert "is not current" in stale.output


def test_compile_with_an_error_prints_it_and_leaves_the_compiled_file_alone(project: Path) -> None:
    write(project, queue_text(""))
    millrace("compile")
    before = (project / ".millrace" / "definitions.json").read_bytes()
    write(project, queue_text("shards: 500\nlabls: []"))
    failed = millrace("compile")
    assert failed.exit_code == 1
    assert "queues/jobs.millrace:1:" in failed.output
    assert "did you mean `labels`?" in failed.output
    assert "2 errors, 0 warnings; nothing written." in failed.output
    assert (project / ".millrace" / "definitions.json").read_bytes() == before


def test_compile_strict_fails_on_warnings(project: Path) -> None:
    write(project, "app T { queue Lonely { message_type { a: json } drained_by: api } }")
    assert millrace("compile").exit_code == 0
    assert millrace("compile", "--strict").exit_code == 1


def test_compile_without_files_says_so(project: Path) -> None:
    assert "belongs to no app" in millrace("compile").output


def test_fmt_formats_once_and_check_agrees(project: Path) -> None:
    path = write(project, queue_text("shards:2"))
    assert millrace("fmt", "--check").exit_code == 1
    assert millrace("fmt").output == "formatted: queues/jobs.millrace\n"
    once = path.read_text()
    assert millrace("fmt").output == ""
    assert millrace("fmt", "--check").exit_code == 0
    assert path.read_text() == once


def test_fmt_leaves_a_broken_file_alone(project: Path) -> None:
    path = write(project, "app A { queue")
    failed = millrace("fmt")
    assert failed.exit_code == 1
    assert "jobs.millrace:1:" in failed.output
    assert path.read_text() == "app A { queue"


def test_explain_prints_timetable_and_limits(project: Path) -> None:
    write(project, queue_text("delivery { max_attempts: 3 initial_backoff_ms: 1000 backoff: none }"))
    millrace("compile")
    shown = millrace("explain", "Jobs")
    assert shown.exit_code == 0
    for words in ("Jobs (Test)", "1,000,000 unfinished messages", "at once", "2 s", "3 s", "dead letter"):
        assert words in shown.output
    unknown = millrace("explain", "Job")
    assert unknown.exit_code == 1
    assert "Did you mean 'Jobs'?" in unknown.output
