"""Workers under a test's control: one drain at a time, no patience, no heartbeat but the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.queue import Queue, Runtime
from millrace.model.message import Draft
from millrace.stores.memory.queue import MemoryStore
from millrace.worker import Worker, WorkerSettings
from millrace.worker.worker import DrainResult
from tests.conftest import Bench, Clock

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


def put_all(queue: Queue, count: int) -> list[Receipt]:
    """Messages `{"n": 0}`, `{"n": 1}` and so on, each with its receipt."""
    answers = enqueue_all(queue, [Draft(f'{{"n":{n}}}'.encode()) for n in range(count)])
    return [answer for answer in answers if isinstance(answer, Receipt)]


def ahead_of(bench: Bench, queue: Queue) -> Queue:
    """The queue of a rival whose clock is past the lease: moving the worker's own would set off its heartbeat."""
    return Runtime(bench.store, bench.blobs, clock=lambda: bench.clock() + 31_000).queue(bench.tenant, queue.spec)


def join_runners() -> None:
    """Wait for threads that were left behind in a handler, once the test lets it return."""
    for thread in threading.enumerate():
        if thread.name.startswith("millrace-"):
            thread.join(10)


@pytest.fixture
def memory_bench(memory_store: MemoryStore, clock: Clock, tenant: str) -> Bench:
    return Bench(memory_store, clock, tenant)


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind() -> Any:
    """A worker that ends leaves no thread of its own: a leak here would be one in every Lambda."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("millrace-")]
    assert not left
