"""One model: the same functions in a worker, in a Consumer and in an AsyncConsumer, with the same outcomes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from millrace import AsyncContext, Context, Reject, Retry, Snooze
from millrace.admission.admit import accept
from millrace.client import AsyncClient, AsyncConsumer, Client, Consumer, Retries
from millrace.definitions import TargetKind
from millrace.engine.queue import Runtime
from millrace.engine.status import status
from millrace.http.routes import Api
from millrace.model.message import Draft
from millrace.openapi import V1_ROUTES
from millrace.pull.service import PullService
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker.commands import Commands
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.time_left import TimeLeft
from tests.client.conftest import URL, Wire
from tests.pull.virtual_time import VirtualTime
from tests.worker.conftest import AT_ONCE
from tests.worker.definitions import compiled

QUEUES = """
queue Orders {
  message_type { what: string  order?: json }
  execution_timeout_seconds: 40
  lease_seconds: 20
  delivery { max_attempts: 3  initial_backoff_ms: 5000  backoff: none }
  map_to: command Order.Take { what: what  number: what == "unmapped" ? order.number : 7 }
}
"""
Run = Callable[[Callable[..., Any]], None]


class Stand:
    """A queue and a way to run a handler on what is due."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.runtime = Runtime(MemoryStore(), MemoryBlobs(), clock=self.time, chance=lambda: 0.5)
        self.definitions = compiled(QUEUES)
        self.queue = self.runtime.queue("acme", self.definitions.queue("Orders").spec)
        self.wire = Wire(Api(PullService(self.runtime, self.definitions, MemoryTokens()), V1_ROUTES), "acme")

    def put(self, what: str) -> str:
        body = json.dumps({"what": what}).encode()
        draft = Draft(body, content_type="application/json", correlation_id="corr-1")
        return accept(self.queue, self.definitions.queue("Orders"), draft).message_id

    def in_worker(self, handler: Callable[..., Any]) -> None:
        commands = Commands()
        commands.command("Order.Take")(handler)
        drainer = QueueDrainer(self.runtime, self.definitions, {TargetKind.COMMAND: commands.deliver}, AT_ONCE)
        drainer.drain(WakeRequest("acme", "Orders"), TimeLeft())

    def in_consumer(self, handler: Callable[..., Any]) -> None:
        with Client(URL, "mrt_x", transport=self.wire, retries=Retries(tries=1)) as client:
            consumer = Consumer(client, clock=lambda: self.time() / 1000, now=self.time, chance=lambda: 1.0)
            consumer.handle("Orders", wait_ms=0)(handler)
            consumer.run(drain=True)

    def in_async_consumer(self, handler: Callable[..., Any]) -> None:
        async def story() -> None:
            async with AsyncClient(URL, "mrt_x", transport=self.wire, retries=Retries(tries=1)) as client:
                consumer = AsyncConsumer(client, clock=lambda: self.time() / 1000, now=self.time, chance=lambda: 1.0)
                consumer.handle("Orders", wait_ms=0)(handler)
                await consumer.run(drain=True)

        asyncio.run(story())


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture(params=["worker", "consumer", "async_consumer"])
def run(request: pytest.FixtureRequest, stand: Stand) -> Run:
    found: Run = getattr(stand, f"in_{request.param}")
    return found


Seen = list[dict[str, Any]]


def sync_and_async(seen: Seen) -> dict[str, Callable[..., Any]]:
    """The handler, once as a function and once as a coroutine function."""

    def note(given: dict[str, Any], context: Context | AsyncContext, state: dict[str, Any]) -> Any:
        names = ("message_id", "attempt", "version", "correlation_id", "input")
        facts = {name: getattr(context, name) for name in names}
        facts |= {"given": given, "left": context.remaining_ms(), "cancelled": context.cancelled.is_set()}
        facts |= {"state": state, "logged": context.logger.extra["message_id"]}  # type: ignore[index]
        seen.append(facts)
        match given["what"]:
            case "later":
                raise Snooze(after=90)
            case "again":
                raise Retry(after=30, reason="not yet")
            case "never":
                raise Reject("no such order")
            case "broken":
                raise ValueError("cannot")
        return {"number": given["number"]}

    def take(given: dict[str, Any], context: Context) -> Any:
        state = context.state.read()
        context.state.write({"runs": [*state.get("runs", []), context.version]})
        assert json.loads(context.body)["what"] == given["what"]
        context.extend(60)
        return note(given, context, state)

    async def take_async(given: dict[str, Any], context: AsyncContext) -> Any:
        state = await context.state.read()
        await context.state.write({"runs": [*state.get("runs", []), context.version]})
        assert json.loads(await context.read_body())["what"] == given["what"]
        await context.extend(60)
        return note(given, context, state)

    return {"sync": take, "async": take_async}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_handler_is_given_the_same_everywhere(stand: Stand, run: Run, kind: str) -> None:
    seen: Seen = []
    message_id = stand.put("good")
    run(sync_and_async(seen)[kind])
    given = {"what": "good", "number": 7}
    assert seen == [
        {
            "message_id": message_id,
            "attempt": 1,
            "version": 1,
            "correlation_id": "corr-1",
            "input": given,
            "given": given,
            "left": 60_000,
            "cancelled": False,
            "state": {},
            "logged": message_id,
        }
    ]
    found = status(stand.queue, message_id)
    assert found.result is not None
    assert (found.status.value, json.loads(found.result.snapshot)) == ("done", {"number": 7})


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("what", "ended", "attempts", "due_in", "error"),
    [
        ("later", "scheduled", 0, 90_000, None),
        ("again", "scheduled", 1, 30_000, ("Retry", "not yet")),
        ("never", "dead", 1, None, ("Reject", "no such order")),
        ("broken", "scheduled", 1, 5_000, ("ValueError", "cannot")),
    ],
)
def test_what_a_handler_raises_means_the_same_everywhere(
    stand: Stand, run: Run, kind: str, what: str, ended: str, attempts: int, due_in: int | None, error: Any
) -> None:
    message_id = stand.put(what)
    seen: Seen = []
    began = stand.time()
    run(sync_and_async(seen)[kind])
    found = status(stand.queue, message_id)
    assert len(seen) == 1
    assert found.status.value == ended
    if error is not None:
        dead = stand.queue.store.get_dead_letter("acme", "Orders", found.dead_letter) if found.dead_letter else None
        history = dead.history if dead else found.history
        assert [(run.error_type, run.error) for run in history] == [error]
    if found.entry is not None:
        assert (found.entry.attempts, found.entry.due - began) == (attempts, due_in)


def test_the_workflow_state_and_the_attempt_go_on_where_another_kind_of_worker_left_off(stand: Stand) -> None:
    """A message that fails in a Lambda may be finished by a container."""
    seen: Seen = []
    stand.put("broken")
    handlers = sync_and_async(seen)
    for run, kind in ((stand.in_worker, "sync"), (stand.in_consumer, "async"), (stand.in_async_consumer, "sync")):
        run(handlers[kind])
        stand.time.forward(10_000)
    assert [(one["attempt"], one["version"], one["state"]) for one in seen] == [
        (1, 1, {}),
        (2, 2, {"runs": [1]}),
        (3, 3, {"runs": [1, 2]}),
    ]


def test_a_message_that_the_mapping_has_no_value_for_is_a_dead_letter_everywhere(stand: Stand, run: Run) -> None:
    message_id = stand.put("unmapped")
    run(lambda _given: pytest.fail("was called"))
    found = status(stand.queue, message_id)
    assert found.dead_letter is not None
    dead = stand.queue.store.get_dead_letter("acme", "Orders", found.dead_letter)
    assert dead is not None
    assert dead.error.startswith("The mapping has no value for this message")


def test_a_handler_without_a_context_is_called_with_the_input_alone(stand: Stand, run: Run) -> None:
    seen: list[Any] = []
    stand.put("good")
    run(seen.append)
    assert seen == [{"what": "good", "number": 7}]


def test_a_result_too_large_to_be_kept_is_done_all_the_same(stand: Stand, run: Run) -> None:
    message_id = stand.put("good")
    run(lambda _given: "x" * 70_000)
    found = status(stand.queue, message_id)
    assert found.status.value == "done"
    assert found.result is None or found.result.snapshot == b""


def test_no_thread_of_a_handler_is_left(stand: Stand) -> None:
    stand.put("good")
    stand.in_async_consumer(lambda _given: None)
    for thread in threading.enumerate():
        if thread.name.startswith("millrace-handler"):
            thread.join(10)
            assert not thread.is_alive()
