"""`millrace check-history`: its exit codes, and what it prints. (More in tests/history/test_reader.py.)"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millrace.cli.main import main
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Runtime
from millrace.history.log import HistoryLog
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check-history", *arguments])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two messages accepted, one of them done."""
    lines: list[str] = []
    runtime = Runtime(MemoryStore(), MemoryBlobs(), history=HistoryLog(lines.append))
    queue = runtime.queue("t", QueueSpec("Jobs"))
    enqueue_all(queue, [Draft(b"{}"), Draft(b"{}")])
    (held,) = claim(queue, owner="w", limit=1).claims
    ack(queue, [held.entry])
    path = tmp_path / "log"
    path.write_text("".join(lines))
    return path


def test_a_sound_history_exits_with_success(log: Path) -> None:
    done = check(str(log), "--json")
    assert done.exit_code == 0
    verdict = json.loads(done.output)
    assert (verdict["accepted"], verdict["done"], len(verdict["unfinished"])) == (2, 1, 1)
    assert "broken promises" in check(str(log)).output


def test_in_complete_logs_an_unfinished_message_is_lost(log: Path) -> None:
    assert check(str(log), "--complete").exit_code == 1


def test_another_queue_or_tenant_has_no_history_here(log: Path) -> None:
    assert check(str(log), "--queue", "Other").exit_code == 2
    assert check(str(log), "--tenant", "other").exit_code == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = check(str(tmp_path / "none"))
    assert done.exit_code == 2
    assert "cannot be read" in done.output
