"""The hammer, small enough for every run: `python -m tests.proofs.hammer.run` is the full one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

from millrace.engine.claim import Claim, claim
from millrace.history.checker import check_history
from millrace.history.log import HistoryEvent
from millrace.model.queue_spec import Ordering
from millrace.stores.dynamodb.client import TableNames
from tests.proofs.hammer.hammer import all_records, table_statuses
from tests.proofs.hammer.stopped_worker import MESSAGES, assignment
from tests.proofs.hammer.worker import Worker

ROOT = Path(__file__).resolve().parents[3]


def _hammer(endpoint: str, tenant: str, *options: str) -> dict[str, Any]:
    """In a process of its own: it forks, which a process with threads must not."""
    command = [sys.executable, "-m", "tests.proofs.hammer.run", "--json", "--endpoint", endpoint, "--tenant", tenant]
    ran = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


# Even seeds keep results, odd ones do not: the history must say who ended a message either way.
@pytest.mark.parametrize(("ordering", "messages", "seed"), [("unordered", 200, 1), ("per_key", 150, 2)])
def test_every_message_ends_once_however_its_workers_die(
    engine_url: str, tenant: str, ordering: str, messages: int, seed: int
) -> None:
    report = _hammer(
        engine_url, tenant, "--ordering", ordering, "--messages", str(messages), "--seed", str(seed),
        "--processes", "4", "--kills", "4", "--stops", "0",
    )  # fmt: skip

    verdict = report["verdict"]
    assert verdict["findings"] == []
    assert verdict["accepted"] == messages
    assert verdict["dead"] == messages // 100
    assert verdict["done"] == messages - verdict["dead"]
    assert report["kills"] == 4
    assert report["self_kills"] > 0


def test_a_worker_stopped_past_its_lease_gets_nothing_through(
    engine_url: str, engine_client: DynamoDBClient, tables: TableNames, tenant: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.proofs.hammer.stopped_worker"]
    arguments = [engine_url, tables.queue, tables.dead_letters, tenant, str(tmp_path)]
    process = subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    _, stopped = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(stopped), process.communicate()[1]
    held = {record.message for record in all_records(tmp_path) if record.event is HistoryEvent.STARTED}
    assert len(held) == MESSAGES

    other = Worker(assignment(tables, tenant, tmp_path, number=1), engine_client)
    taken: list[Claim] = []
    end = time.monotonic() + 60
    while len(taken) < MESSAGES and time.monotonic() < end:
        taken += claim(other.queue, owner="w1.0", limit=MESSAGES, lease_ms=60_000).claims
    assert {one.entry.id for one in taken} == held, "it takes over once the leases have run out"
    runs = other._start(taken)

    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert other._finish(runs)
    _, statuses = table_statuses(other.queue, held)
    verdict = check_history(all_records(tmp_path), ordering=Ordering.UNORDERED, statuses=statuses)
    assert verdict.findings == ()
    assert (verdict.done, verdict.stale) == (MESSAGES, MESSAGES), "each of its acks was refused"
