"""The runner: heartbeats, acks, nacks, restarts, graceful stops. Time is in the test's hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import httpx
import pytest

from millrace import Context
from millrace.client import Client, Consumer, Delivery, Hooks
from millrace.client.loops import INPUT_RETRY_MS
from millrace.engine.enqueue import enqueue
from millrace.model.message import Draft
from millrace.pull.service import PullService
from tests.client.conftest import Wire
from tests.pull.virtual_time import PATIENCE, VirtualTime

Make = Callable[..., Consumer]


@pytest.fixture
def make(client: Client, time: VirtualTime) -> Iterator[Make]:
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        consumer = Consumer(
            client,
            **{"condition": time.condition, "clock": lambda: time() / 1000, "chance": lambda: 1.0, **settings},
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.ask_to_stop()


class Sleeper:
    """Work that takes a while of the test's time."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._condition = time.condition()

    def __call__(self, seconds: float) -> None:
        end = self._time() + seconds * 1000
        with self._condition:
            while self._time() < end:
                self._condition.wait((end - self._time()) / 1000)


def test_heartbeats_keep_a_60_second_job_alive_on_a_5_second_lease(
    make: Make, client: Client, time: VirtualTime
) -> None:
    done: Future[Delivery] = Future()
    consumer = make(concurrency=1, hooks=Hooks(done=done.set_result))
    work = Sleeper(time)

    @consumer.handle_delivery("Jobs", lease_ms=5_000, wait_ms=0)
    def slow(_job: Delivery) -> str:
        work(60)
        return "made it"

    receipt = client.enqueue("Jobs", "long")
    consumer.start()
    for _ in range(120):
        time.settle(3)  # the fetcher without a free place, the heartbeat, the handler
        assert client.claim("Jobs") == [], "nobody else may get it meanwhile"
        time.forward(500)
    assert done.result(PATIENCE).message.attempt == 1
    status = client.status("Jobs", receipt.message_id)
    assert (status["status"], status["result"]) == ("done", "made it")


def test_without_a_heartbeat_the_job_is_lost(make: Make, client: Client, time: VirtualTime, wire: Wire) -> None:
    """The guard of the test above: it fails where heartbeats do not get through."""
    lost: Future[Delivery] = Future()
    consumer = make(concurrency=1, hooks=Hooks(lost=lost.set_result))
    work = Sleeper(time)

    @consumer.handle_delivery("Jobs", lease_ms=5_000, wait_ms=0)
    def slow(_job: Delivery) -> None:
        work(7)

    wire.before = lambda request: httpx.ReadTimeout("gone") if "extend" in request.url.path else None
    client.enqueue("Jobs", "long")
    consumer.start()
    for _ in range(12):
        time.settle(3)
        time.forward(500)
    (taken_over,) = client.claim("Jobs")
    assert taken_over.attempt == 2
    time.settle(3)
    wire.before = lambda _request: None
    time.forward(1_000)
    assert lost.result(PATIENCE).lost


def test_returning_acks_and_raising_nacks(make: Make, client: Client, time: VirtualTime) -> None:
    ended: dict[str, Future[Any]] = {"done": Future(), "failed": Future()}
    consumer = make(
        concurrency=2,
        hooks=Hooks(
            started=lambda: 1 / 0,
            done=ended["done"].set_result,
            failed=lambda job, error: ended["failed"].set_result((job, error)),
        ),
    )

    @consumer.handle_delivery("Jobs", wait_ms=0)
    async def work(job: Delivery) -> dict[str, int]:
        return {"twice": 2 * job.json()["n"]}

    good = client.enqueue("Jobs", {"n": 4})
    bad = client.enqueue("Jobs", "nonsense")
    consumer.start()
    ended["done"].result(PATIENCE)
    job, error = ended["failed"].result(PATIENCE)
    assert isinstance(error, TypeError)
    assert job.finished
    assert client.status("Jobs", good.message_id)["result"] == {"twice": 8}
    (attempt,) = client.status("Jobs", bad.message_id)["history"]
    assert attempt["error_type"] == "TypeError"


def test_fetching_starts_again_after_failures_ever_later(
    make: Make, client: Client, time: VirtualTime, wire: Wire
) -> None:
    waits: list[float] = []
    done: Future[Delivery] = Future()
    hooks = Hooks(fetch_failed=lambda _queue, _error, wait_s: waits.append(wait_s), done=done.set_result)
    consumer = make(concurrency=1, hooks=hooks)
    consumer.handle_delivery("Jobs", wait_ms=0)(lambda _job: None)
    client.enqueue("Jobs", 1)
    wire.before = lambda _request: httpx.Response(400, json={"code": "invalid_request"})
    consumer.start()
    for wait_ms in (500, 1_000, 2_000, 4_000):
        time.settle(2)
        assert waits[-1] * 1000 == wait_ms
        if wait_ms == 4_000:
            wire.before = lambda _request: None
        time.forward(wait_ms)
    done.result(PATIENCE)


def test_a_graceful_stop_lets_handlers_finish(make: Make, client: Client, time: VirtualTime) -> None:
    consumer = make(concurrency=1, grace_s=30)
    work = Sleeper(time)
    consumer.handle_delivery("Jobs", lease_ms=60_000, wait_ms=0)(lambda _job: work(10))
    receipt = client.enqueue("Jobs", 1)
    waiting = client.enqueue("Jobs", 2)
    consumer.start()
    time.settle(3)
    stopper = threading.Thread(target=consumer.stop)
    stopper.start()
    time.settle(3)  # the stopper, the heartbeat, the handler; the fetcher has ended
    time.forward(10_000)
    stopper.join(PATIENCE)
    assert not stopper.is_alive()
    assert client.status("Jobs", receipt.message_id)["status"] == "done"
    assert client.status("Jobs", waiting.message_id)["status"] == "ready"


def test_what_does_not_finish_in_time_is_given_back_uncharged(make: Make, client: Client, time: VirtualTime) -> None:
    consumer = make(concurrency=1, grace_s=5)
    work = Sleeper(time)
    consumer.handle_delivery("Jobs", lease_ms=60_000, wait_ms=0)(lambda _job: work(1_000))
    client.enqueue("Jobs", 1)
    consumer.start()
    time.settle(3)
    stopper = threading.Thread(target=consumer.stop)
    stopper.start()
    time.settle(3)
    time.forward(5_000)
    stopper.join(PATIENCE)
    (again,) = client.claim("Jobs")
    assert again.attempt == 1
    time.forward(1_000_000)


def test_no_more_runs_at_once_than_asked_for(make: Make, client: Client, time: VirtualTime) -> None:
    running, most = [0], [0]
    lock = threading.Lock()
    done = threading.Semaphore(0)
    consumer = make(concurrency=3, hooks=Hooks(done=lambda _job: done.release()))

    def handler(_job: Delivery) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        Sleeper(time)(1)
        with lock:
            running[0] -= 1

    consumer.handle_delivery("Jobs", wait_ms=0)(handler)
    consumer.handle_delivery("Wide", wait_ms=0)(handler)
    for number in range(6):
        client.enqueue("Jobs" if number % 2 else "Wide", number)
    consumer.start()
    finished = 0
    while finished < 6:
        time.forward(100)
        if done.acquire(timeout=0.01):
            finished += 1
    assert most[0] <= 3


def test_a_run_past_its_execution_timeout_has_failed_and_its_message_goes_on(
    make: Make, client: Client, time: VirtualTime
) -> None:
    """The thread cannot be killed: it keeps its place, so a handler that hangs gets no more parallel calls."""
    failed: Future[BaseException] = Future()
    consumer = make(concurrency=1, hooks=Hooks(failed=lambda _job, error: failed.set_result(error)))
    work = Sleeper(time)
    told: Future[bool] = Future()

    @consumer.handle("Jobs", wait_ms=0)
    def hangs(_given: object, context: Context) -> str:
        work(400)
        told.set_result(context.cancelled.is_set())
        return "too late"

    receipt = client.enqueue("Jobs", "long")
    consumer.start()
    for _ in range(31):
        time.settle(3)
        time.forward(10_000)
    assert "longer than 300 s" in str(failed.result(PATIENCE))
    assert [run["error_type"] for run in client.status("Jobs", receipt.message_id)["history"]] == ["ExecutionTimeout"]
    time.forward(1_000)
    (retried,) = client.claim("Jobs")
    assert (retried.attempt, told.done()) == (2, False)
    client.ack("Jobs", retried.claim, "by another")
    while not time.settle_or_end(told, 3):
        time.forward(10_000)
    assert told.result()
    assert client.status("Jobs", receipt.message_id)["result"] == "by another"


def test_a_run_that_asks_for_more_time_gets_it_and_stays_held(make: Make, client: Client, time: VirtualTime) -> None:
    done: Future[Delivery] = Future()
    consumer = make(concurrency=1, hooks=Hooks(done=done.set_result))
    work = Sleeper(time)

    @consumer.handle("Jobs", wait_ms=0)
    def slow(_given: object, context: Context) -> str:
        work(200)
        context.extend(400)
        work(350)
        return "made it"

    client.enqueue("Jobs", "long")
    consumer.start()
    for _ in range(55):
        time.settle(3)
        time.forward(10_000)
    done.result(PATIENCE)
    time.settle(2)
    assert consumer._held == {}, "an extended claim has another handle, and is let go all the same"


@pytest.mark.parametrize("batch", [None, 2])
def test_a_message_whose_input_cannot_be_fetched_is_left_alone_for_a_while_uncharged(
    make: Make, client: Client, service: PullService, wire: Wire, time: VirtualTime, batch: int | None
) -> None:
    """A message without its input must neither cost an attempt nor take the place of those that can run."""
    given_back, done = threading.Event(), threading.Event()

    def before(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/snooze"):
            given_back.set()
        return httpx.Response(403) if request.url.path.endswith("/body") else None

    consumer = make(concurrency=1, hooks=Hooks(done=lambda _job: done.set()))
    consumer.handle("Jobs", wait_ms=0, batch=batch)(lambda _given: None)
    lost = enqueue(service.queue(wire.tenant, "Jobs"), Draft(b"\x00" * 5_000_000)).message_id
    client.enqueue("Jobs", "healthy, and behind it")
    wire.before = before
    consumer.start()
    assert given_back.wait(PATIENCE)
    assert done.wait(PATIENCE)
    consumer.stop()
    wire.before = lambda _request: None
    assert client.claim("Jobs") == [], "it is not offered again at once"
    time.forward(INPUT_RETRY_MS)
    (again,) = client.claim("Jobs")
    assert (again.message_id, again.attempt) == (lost, 1)


def test_a_handler_whose_message_is_cancelled_is_told_with_the_next_heartbeat(
    make: Make, client: Client, time: VirtualTime
) -> None:
    told: Future[bool] = Future()
    consumer = make(concurrency=1)
    work = Sleeper(time)

    @consumer.handle("Jobs", wait_ms=0, lease_ms=30_000)
    def slow(_given: object, context: Context) -> str:
        while not context.cancelled.is_set():
            work(1)
        told.set_result(True)
        return "too late"

    message_id = client.enqueue("Jobs", "long").message_id
    consumer.start()
    time.settle(3)
    client.cancel_message("Jobs", message_id, running=True)
    for _ in range(12):
        if time.settle_or_end(told, 3):
            break
        time.forward(1_000)
    assert told.result(PATIENCE)
    assert client.status("Jobs", message_id)["status"] == "purged"


def test_messages_of_a_fifo_queue_run_one_after_another_whatever_the_concurrency(
    make: Make, client: Client, time: VirtualTime
) -> None:
    """The test is told of each run and lets it end, so that a second beside it is seen."""
    begun: SimpleQueue[int] = SimpleQueue()
    may_end = threading.Semaphore(0)
    failed: list[int] = []

    def handler(number: int) -> None:
        begun.put(number)
        assert may_end.acquire(timeout=PATIENCE)
        if number == 1 and not failed:
            failed.append(number)
            raise ValueError("not yet")

    def next_run() -> int:
        for _ in range(200):
            with suppress(Empty):
                return begun.get(timeout=0.05)
            time.settle(2)  # the fetch and the heartbeat: a retry is waited for
            time.forward(100)
        pytest.fail("nothing more was started")

    consumer = make(concurrency=4)
    consumer.handle("Ordered", wait_ms=0)(handler)
    ids = [client.enqueue("Ordered", number).message_id for number in range(4)]
    consumer.start()
    for expected in (0, 1, 1, 2, 3):
        assert next_run() == expected
        time.settle(2)
        assert begun.empty(), "a second one beside it"
        may_end.release()
    consumer.stop()
    assert [client.status("Ordered", one)["status"] for one in ids] == ["done"] * 4
    assert client.status("Ordered", ids[2])["history"] == [], "given back behind the failed one, uncharged"
