"""The worker as a process: it works until SIGTERM, and leaves nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.definitions.language.compiler import compile_files
from millrace.engine.inspect import list_claims
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.clock import MINUTE
from millrace.model.queue_state import QueueState
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import TimeLeft
from millrace.worker.counts import Counts
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.process import STUCK_REST_MS, Process
from millrace.worker.sweeper import LOOK_EVERY
from millrace.worker.worker import DrainResult
from tests.conftest import Bench
from tests.worker.conftest import put
from tests.worker.definitions import compiled
from tests.worker.rigs import DrainerRig

ROOT = Path(__file__).parents[2]
QUEUE = """app Test { queue Slow {
  message_type { n: int }
  max_concurrency: 1
  map_to: command Slow.Work { n: n }
} }"""


@pytest.fixture
def process(engine_url: str, tables: TableNames, tenant: str, tmp_path: Path) -> Any:
    path = tmp_path / "definitions.json"
    path.write_text(compile_files([("test.millrace", QUEUE.encode())]).text)
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    environment = {
        **os.environ,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(path),
        "COMMANDS": "tests.worker.slow_bundle",
        "STARTED": str(fifo),
        "PYTHONPATH": f"{ROOT / 'shared'}{os.pathsep}{ROOT}",
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "functions.worker", "--tenant", tenant, "--queue", "Slow"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield running, fifo
    running.kill()
    running.wait()
    if running.stdout:
        running.stdout.close()


def polled(process: Process) -> None:
    """One poll, and everything that it started to its end."""
    process._poll()
    for thread in (*process._threads.values(), *([process._sweeper] if process._sweeper else [])):
        thread.join()


def test_what_ends_the_drain_of_one_queue_ends_neither_the_process_nor_the_others(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue whose threads are all stuck rests; the others go on."""
    rig = DrainerRig(memory_bench)
    drained: list[str] = []
    real = QueueDrainer.drain

    def drain(self: QueueDrainer, request: WakeRequest, time_left: TimeLeft) -> DrainResult | None:
        drained.append(request.queue)
        if request.queue == "Others":
            return real(self, request, time_left)
        with time_left.share() as own:
            own.stop(0.0, "stuck")
        return DrainResult(Counts(), None, 4, "stuck")

    monkeypatch.setattr(QueueDrainer, "drain", drain)
    process = Process(rig.drainer)
    rig.put(1)
    for n in (2, 3):
        rig.put(n, "Others")
        polled(process)
    assert (sorted(drained), rig.seen) == (["Jobs", "Others", "Others"], [2, 3])
    memory_bench.clock.forward(STUCK_REST_MS)
    polled(process)
    assert drained.count("Jobs") == 2


def test_the_sweep_of_a_process_finds_work_that_no_counter_shows(memory_bench: Bench) -> None:
    rig = DrainerRig(memory_bench)
    process = Process(rig.drainer)
    rig.put(1)
    states: dict[tuple[str, str], QueueState] = memory_bench.store.states  # type: ignore[attr-defined]
    states[rig.tenant, "Jobs"] = QueueState(rig.tenant, "Jobs", listed=True)
    for _ in range(2 * LOOK_EVERY + 1):
        polled(process)
        memory_bench.clock.forward(MINUTE)
    assert rig.seen == [1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_run_finish_and_gives_back_the_rest(
    number: signal.Signals, process: Any, engine_url: str, tables: TableNames, tenant: str
) -> None:
    running, fifo = process
    queue = _queue(engine_url, tables, tenant)
    ids = [put(queue, json.dumps({"n": n}).encode()).message_id for n in range(4)]
    with fifo.open() as started:  # blocks until the command has begun
        assert started.read(1) == "+"
        running.send_signal(number)
    shown, _ = running.communicate(timeout=120)
    assert running.returncode == 0, shown
    statuses = [status(queue, message_id).status for message_id in ids]
    assert statuses == [MessageStatus.DONE, MessageStatus.READY, MessageStatus.READY, MessageStatus.READY]
    assert not list_claims(queue).items
    assert all(entry.attempts == 0 for entry in _entries(queue, ids))


def _entries(queue: Queue, ids: list[str]) -> list[Any]:
    return [found.entry for found in (status(queue, message_id) for message_id in ids) if found.entry]


def _queue(url: str, tables: TableNames, tenant: str) -> Queue:
    definitions = compiled(QUEUE.removeprefix("app Test {").removesuffix("}"))
    store = DynamoStore(dynamodb_client(endpoint_url=url, region=REGION), tables)
    return Runtime(store, MemoryBlobs()).queue(tenant, definitions.queue("Slow").spec)
