"""A worker process that dies, or is frozen, at a point of its choosing: `python -m tests.worker.crashing_worker POINT`.

It drains one queue of the table that its environment names, and prints what it counted, if it lives to do so.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from millrace.engine.queue import Queue, Runtime
from millrace.model.queue_spec import Jitter, QueueSpec, RetryPolicy
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import RunContext, Worker, WorkerSettings, endings, worker
from tests.faults.crashes import after, before, die, freeze

#: Longer than any machine is busy: who takes over has a clock that is past it.
LEASE_S = 60.0
#: The function at which it dies or freezes, before it or after it.
STEPS: dict[str, tuple[ModuleType, str, Callable[..., Any], Callable[[], None]]] = {
    "after-claim": (worker, "claim", after, die),
    "before-ack": (endings, "ack", before, die),
    "after-ack": (endings, "ack", after, die),
    "frozen-before-ack": (endings, "ack", before, freeze),
}


def crashing_queue(url: str, region: str, names: TableNames, tenant: str) -> Queue:
    store = DynamoStore(dynamodb_client(endpoint_url=url, region=region), names)
    spec = QueueSpec(
        "Crashing",
        lease_seconds=LEASE_S,
        delivery=RetryPolicy(max_attempts=3, initial_backoff_ms=1, jitter=Jitter.NONE),
    )
    return Runtime(store, MemoryBlobs()).queue(tenant, spec)


def main(point: str) -> None:
    names = TableNames(os.environ["QUEUE_TABLE"], os.environ["DEAD_LETTER_TABLE"])
    queue = crashing_queue(os.environ["ENGINE_URL"], os.environ["AWS_DEFAULT_REGION"], names, os.environ["TENANT"])

    def handled(_context: RunContext) -> str:
        if point == "in-run":
            die()
        if point == "frozen-in-run":
            freeze()
        return "by the crashing worker"

    if point in STEPS:
        module, name, around, event = STEPS[point]
        pytest.MonkeyPatch().setattr(module, name, around(getattr(module, name), event))
    settings = WorkerSettings(patience_ms=0, heartbeat=False)
    drained = Worker(queue, handled, settings=settings).run()
    sys.stdout.write(json.dumps(dict(drained.counts.outcomes)))


if __name__ == "__main__":
    main(sys.argv[1])
