"""Large bodies share the memory of a worker: they wait for each other, and nobody else waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.queue import Queue
from millrace.model.queue_spec import Ordering
from millrace.model.strict_json import memory_cost
from millrace.worker import RunContext, TimeLeft
from millrace.worker.body_budget import LEAST, MB, OWN_MEMORY, BodyBudget
from millrace.worker.buffer import MAX_DEFERRED
from millrace.worker.pipeline import Pipeline
from millrace.worker.run import Run
from millrace.worker.time_left import real_wait
from tests.conftest import Bench
from tests.worker.conftest import drain, put, worker

LARGE = b" " * 200_000
COST = memory_cost(len(LARGE))


@pytest.fixture
def queue(memory_bench: Bench) -> Queue:
    return memory_bench.queue()


def runs_of(queue: Queue, *bodies: bytes) -> list[Run]:
    for body in bodies:
        put(queue, body)
    return [Run(taken, taken.entry) for taken in claim(queue, owner="test", limit=len(bodies)).claims]


def test_large_bodies_start_in_their_order_while_they_fit(queue: Queue) -> None:
    budget = BodyBudget(2 * COST)
    first, second, third, fourth = runs_of(queue, *[LARGE] * 4)
    assert [budget.take(run) for run in (first, second, third, fourth)] == [True, True, False, False]
    budget.give(first)
    assert not budget.take(fourth)
    assert budget.take(third)
    assert budget.taken == 2 * COST


def test_small_bodies_always_start_and_one_large_alone(queue: Queue) -> None:
    budget = BodyBudget(1)
    large, other, small = runs_of(queue, LARGE, LARGE, b"{}")
    assert budget.take(large)
    assert not budget.take(other)
    assert budget.take(small)


def test_what_will_not_start_keeps_nobody_waiting(queue: Queue) -> None:
    budget = BodyBudget(COST)
    first, second, third = runs_of(queue, *[LARGE] * 3)
    assert budget.take(first)
    assert not budget.take(second)
    budget.give(second)
    told: list[None] = []
    with budget.on_room(lambda: told.append(None)):
        budget.give(first)
    assert told
    assert budget.take(third)


@pytest.mark.parametrize(("megabytes", "limit"), [(512, 512 * MB - OWN_MEMORY), (128, LEAST)])
def test_a_budget_is_what_the_process_has_left(megabytes: int, limit: int) -> None:
    assert BodyBudget.of_memory(megabytes).limit == limit


class Crowd:
    """A handler that keeps large bodies until all who may run at once are there, and counts them."""

    def __init__(self, at_once: int) -> None:
        self._gate = threading.Barrier(at_once, timeout=5)
        self._lock = threading.Lock()
        self._running = 0
        self.most = 0
        self.seen: list[str] = []

    def __call__(self, context: RunContext) -> None:
        large = len(context.body) > 1_000
        with self._lock:
            self.seen.append("large" if large else "small")
            self._running += large
            self.most = max(self.most, self._running)
        if large:
            self._gate.wait()
        with self._lock:
            self._running -= large


def test_no_more_large_bodies_run_at_once_than_fit(queue: Queue) -> None:
    """With the budget taken away, four would run at the same time."""
    crowd = Crowd(at_once=2)
    for _ in range(8):
        put(queue, LARGE)
    drained = drain(queue, crowd, budget=BodyBudget(2 * COST))
    assert (drained.counts["done"], crowd.most) == (8, 2)


def test_a_healthy_message_behind_large_ones_runs_beside_the_first(queue: Queue) -> None:
    """Twenty large bodies come before it; the only one that fits is still running when it is done."""
    ran = threading.Event()
    order: list[str] = []

    def handle(context: RunContext) -> None:
        if len(context.body) > 1_000:
            order.append("large")
            if not ran.wait(5):
                order.append("late")
            ran.set()
        else:
            order.append("small")
            ran.set()

    for _ in range(20):
        put(queue, LARGE)
    put(queue, b"{}")
    drained = drain(queue, handle, budget=BodyBudget(COST))
    assert drained.counts["done"] == 21
    assert order[:2] == ["large", "small"]


@pytest.mark.parametrize(("waiting", "fetches"), [(MAX_DEFERRED, True), (MAX_DEFERRED + 1, False)])
def test_a_worker_does_not_hoard_what_it_cannot_start(queue: Queue, waiting: int, fetches: bool) -> None:
    """Claims that only wait for memory are bounded: the others stay in the queue for other workers."""
    pipeline = Pipeline(queue, 4, TimeLeft(), real_wait, BodyBudget(COST))
    pipeline.add(runs_of(queue, *[LARGE] * (waiting + 1), b"{}"))
    first, second = pipeline.next(), pipeline.next()
    assert first is not None
    assert second is not None
    assert [len(body_of(queue, run.claim)) for run in (first, second)] == [len(LARGE), 2]
    assert bool(pipeline.room(0)) is fetches


def test_a_fifo_queue_waits_for_memory_in_its_order(memory_bench: Bench) -> None:
    queue = memory_bench.queue(ordering=Ordering.FIFO)
    other = memory_bench.queue(name="Other")
    (blocker,) = runs_of(other, LARGE)
    budget = BodyBudget(COST)
    assert budget.take(blocker)
    seen: list[int] = []
    for body in (LARGE, b"{}"):
        put(queue, body)
    working = worker(queue, lambda context: seen.append(len(context.body)), budget=budget)
    thread = threading.Thread(target=working.run)
    thread.start()
    while working.pipeline.moves < 1 and not seen:
        working.pipeline.wait_for_move(0, 0.01)
    assert seen == []
    budget.give(blocker)
    thread.join(20)
    assert seen == [len(LARGE), 2]


def test_a_thread_that_hangs_keeps_its_memory(memory_bench: Bench) -> None:
    """A run that was given up still holds its body: nothing starts in its place before the thread is back."""
    queue = memory_bench.queue()
    budget = BodyBudget(COST)
    let_go = threading.Event()
    put(queue, LARGE)

    def hang(_context: RunContext) -> None:
        (run,) = working.pipeline.held()
        working.pipeline.take_lost(run)
        working.pipeline.thread_stuck(run)
        hanging.set()
        assert let_go.wait(20)

    hanging = threading.Event()
    working = worker(queue, hang, budget=budget)
    thread = threading.Thread(target=working.run)
    thread.start()
    assert hanging.wait(20)
    assert budget.taken == COST
    let_go.set()
    thread.join(20)
    _until(lambda: budget.taken == 0)


def _until(holds: Callable[[], bool]) -> None:
    for thread in threading.enumerate():
        if thread.name == "millrace-runner":
            thread.join(20)
    assert holds()
