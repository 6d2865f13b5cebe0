"""Workers in a test's hand: one drain at a time, no patience, no threads that beat by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.worker import Worker, WorkerSettings
from millrace.worker.worker import DrainResult

AT_ONCE = WorkerSettings(concurrency=4, patience_ms=0, linger_ms=0, heartbeat=False)


def worker(queue: Queue, handler: Callable[..., Any], **given: Any) -> Worker:
    """A worker that ends as soon as nothing is due."""
    names = set(WorkerSettings.__dataclass_fields__)
    settings = replace(AT_ONCE, **{name: given.pop(name) for name in names & set(given)})
    return Worker(queue, handler, settings=settings, **given)


def drain(queue: Queue, handler: Callable[..., Any], **given: Any) -> DrainResult:
    return worker(queue, handler, **given).run()


def put(queue: Queue, body: bytes = b"{}", **fields: Any) -> Receipt:
    return enqueue(queue, Draft(body, **fields))


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind() -> Any:
    """A worker that ends leaves no thread of its own: a leak here would be one in every Lambda."""
    import threading

    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("millrace-")]
    assert not left
