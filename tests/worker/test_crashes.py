"""Worker processes killed and frozen at every step: nothing is lost, nothing runs after it was done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local.dynamodb import REGION
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.clock import system_clock
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import RunContext, Worker, WorkerSettings
from tests.worker.conftest import put
from tests.worker.crashing_worker import LEASE_S, crashing_queue

ROOT = Path(__file__).parents[2]


@pytest.fixture
def queue(engine_url: str, tables: TableNames, tenant: str) -> Queue:
    return crashing_queue(engine_url, REGION, tables, tenant)


def start_crashing(point: str, url: str, tables: TableNames, tenant: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "ENGINE_URL": url,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "TENANT": tenant,
        "PYTHONPATH": f"{ROOT / 'shared'}{os.pathsep}{ROOT}",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.worker.crashing_worker", point],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def recover(queue: Queue) -> list[tuple[int, int]]:
    """Another worker, by whose clock the lease has run out; the attempt and version of each run."""
    runs: list[tuple[int, int]] = []
    later = Runtime(queue.store, MemoryBlobs(), clock=lambda: system_clock() + int(LEASE_S * 1000) + 1)

    def handle(context: RunContext) -> bytes:
        runs.append((context.attempt, context.version))
        return b"by the other"

    Worker(later.queue(queue.tenant, queue.spec), handle, settings=WorkerSettings(patience_ms=0)).run()
    return runs


@pytest.mark.parametrize("point", ["after-claim", "in-run", "before-ack"])
def test_what_a_killed_worker_held_is_done_by_another(
    point: str, queue: Queue, engine_url: str, tables: TableNames
) -> None:
    receipt = put(queue)
    process = start_crashing(point, engine_url, tables, queue.tenant)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert recover(queue) == [(2, 2)]
    found = status(queue, receipt.message_id)
    assert found.status is MessageStatus.DONE
    assert found.result is not None
    assert found.result.snapshot == b"by the other"


def test_a_worker_killed_after_its_ack_leaves_nothing_to_do(queue: Queue, engine_url: str, tables: TableNames) -> None:
    receipt = put(queue)
    process = start_crashing("after-ack", engine_url, tables, queue.tenant)
    process.communicate(timeout=120)
    assert recover(queue) == []
    assert status(queue, receipt.message_id).status is MessageStatus.DONE


@pytest.mark.parametrize("point", ["frozen-in-run", "frozen-before-ack"])
def test_a_worker_frozen_past_its_lease_wakes_up_stale(
    point: str, queue: Queue, engine_url: str, tables: TableNames
) -> None:
    receipt = put(queue)
    process = start_crashing(point, engine_url, tables, queue.tenant)
    os.waitpid(process.pid, os.WUNTRACED)
    try:
        assert recover(queue) == [(2, 2)]
    finally:
        process.send_signal(signal.SIGCONT)
        shown, _ = process.communicate(timeout=120)
    counts = json.loads(shown)
    assert (counts.get("stale"), counts.get("done", 0)) == (1, 0)
    found = status(queue, receipt.message_id)
    assert found.result is not None
    assert found.result.snapshot == b"by the other"
