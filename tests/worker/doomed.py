"""A worker process that dies, or is frozen, at a point of its choosing: `python -m tests.worker.doomed POINT`.

It drains one queue of the table that its environment names, and prints what it counted, if it lives to do so.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from millrace.engine.queue import Queue, Runtime
from millrace.model.queue_spec import Jitter, QueueSpec, RetryPolicy
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import Context, Worker, WorkerSettings, runners, worker

LEASE_S = 2.0


def doomed_queue(url: str, region: str, names: TableNames, tenant: str) -> Queue:
    store = DynamoStore(dynamodb_client(endpoint_url=url, region=region), names)
    spec = QueueSpec(
        "Doomed", lease_seconds=LEASE_S, delivery=RetryPolicy(max_attempts=3, initial_backoff_ms=1, jitter=Jitter.NONE)
    )
    return Runtime(store, MemoryBlobs()).queue(tenant, spec)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def then(function: Callable[..., Any], event: Callable[[], None], *, first: bool) -> Callable[..., Any]:
    """The function with the event before or after it."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if first:
            event()
        found = function(*args, **kwargs)
        if not first:
            event()
        return found

    return wrapped


def main(point: str) -> None:
    names = TableNames(os.environ["QUEUE_TABLE"], os.environ["DEAD_LETTER_TABLE"])
    queue = doomed_queue(os.environ["ENGINE_URL"], os.environ["AWS_DEFAULT_REGION"], names, os.environ["TENANT"])
    handled: Callable[[Context], str] = lambda _context: "by the doomed"  # noqa: E731
    match point:
        case "after-claim":
            worker.claim = then(worker.claim, die, first=False)
        case "in-run":
            handled = lambda _context: die() or ""  # noqa: E731
        case "before-ack":
            runners.ack = then(runners.ack, die, first=True)
        case "after-ack":
            runners.ack = then(runners.ack, die, first=False)
        case "frozen-in-run":
            handled = lambda _context: freeze() or "late"  # noqa: E731
        case "frozen-before-ack":
            runners.ack = then(runners.ack, freeze, first=True)
    settings = WorkerSettings(patience_ms=0, heartbeat=False)
    drained = Worker(queue, handled, settings=settings).run()
    sys.stdout.write(json.dumps(dict(drained.counts.outcomes)))


if __name__ == "__main__":
    main(sys.argv[1])
