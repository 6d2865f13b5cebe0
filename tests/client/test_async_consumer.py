"""The runner on an event loop behaves as the one with threads does. Time is in the test's hand."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from millrace import AsyncContext
from millrace.client import AsyncClient, AsyncConsumer, AsyncDelivery, Client, Hooks, Retries
from tests.client.conftest import URL, Wire
from tests.client.virtual_loop import play
from tests.pull.virtual_time import VirtualTime

Story = Callable[[AsyncClient], Coroutine[Any, Any, None]]


def tell(time: VirtualTime, wire: Wire, story: Story) -> None:
    async def told() -> None:
        async with AsyncClient(URL, "mrt_x", transport=wire, retries=Retries(chance=lambda: 1.0)) as client:
            await story(client)

    play(time, told())


def consumer_of(client: AsyncClient, time: VirtualTime, **settings: Any) -> AsyncConsumer:
    return AsyncConsumer(client, **{"clock": lambda: time() / 1000, "chance": lambda: 1.0, **settings})


def test_heartbeats_keep_a_60_second_job_alive_on_a_5_second_lease(wire: Wire, time: VirtualTime) -> None:
    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1)

        @consumer.handle_delivery("Jobs", lease_ms=5_000, wait_ms=0)
        async def slow(_job: AsyncDelivery) -> str:
            for _ in range(60):
                await asyncio.sleep(1)
                assert await client.claim("Jobs") == [], "nobody else may get it meanwhile"
            return "made it"

        receipt = await client.enqueue("Jobs", "long")
        await consumer.run(drain=True)
        status = await client.status("Jobs", receipt.message_id)
        assert (status["status"], status["result"], status["history"]) == ("done", "made it", [])

    tell(time, wire, story)


def test_without_a_heartbeat_the_job_is_lost_and_told_so(wire: Wire, time: VirtualTime) -> None:
    lost: list[AsyncDelivery] = []

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1, hooks=Hooks(lost=lost.append))

        @consumer.handle_delivery("Jobs", lease_ms=5_000, wait_ms=0)
        async def slow(job: AsyncDelivery) -> None:
            wire.before = lambda request: httpx.ReadTimeout("gone") if "extend" in request.url.path else None
            await asyncio.sleep(6)
            (taken_over,) = await client.claim("Jobs")
            assert taken_over.attempt == 2
            wire.before = lambda _request: None
            await asyncio.sleep(100)

        await client.enqueue("Jobs", "long")
        await consumer.run(limit=1)

    tell(time, wire, story)
    assert [job.lost for job in lost] == [True]


def test_the_text_of_what_a_handler_or_a_hook_raised_is_in_no_log(
    wire: Wire, time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception's text often quotes the data that it failed on, and its traceback the lines that held it."""

    def hook() -> None:
        raise RuntimeError("card 4111-hook")

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1, hooks=Hooks(started=hook))

        @consumer.handle_delivery("Jobs", wait_ms=0)
        async def work(_job: AsyncDelivery) -> None:
            raise ValueError("card 4111-handler")

        sent = await client.enqueue("Jobs", {"n": 1})
        await consumer.run(limit=1)
        (attempt,) = (await client.status("Jobs", sent.message_id))["history"]
        assert "4111-handler" in attempt["error"], "operators find it where the message is"

    tell(time, wire, story)
    logged = [f"{record.getMessage()} {record.exc_text} {record.exc_info} {vars(record)}" for record in caplog.records]
    assert any("ValueError" in line for line in logged)
    assert any("RuntimeError" in line for line in logged)
    assert not any("4111" in line or "Traceback" in line for line in logged)


def test_returning_acks_and_raising_nacks(wire: Wire, time: VirtualTime, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def failed(_job: AsyncDelivery, error: BaseException) -> None:
        seen.append(type(error).__name__)

    async def story(client: AsyncClient) -> None:
        hooks = Hooks(started=lambda: 1 / 0, done=lambda _job: seen.append("done"), failed=failed)
        consumer = consumer_of(client, time, concurrency=1, hooks=hooks)

        @consumer.handle_delivery("Jobs", wait_ms=0)
        async def work(job: AsyncDelivery) -> dict[str, int]:
            return {"twice": 2 * job.json()["n"]}

        good = await client.enqueue("Jobs", {"n": 4})
        bad = await client.enqueue("Jobs", "nonsense")
        await consumer.run(limit=2)
        assert (await client.status("Jobs", good.message_id))["result"] == {"twice": 8}
        (attempt,) = (await client.status("Jobs", bad.message_id))["history"]
        assert attempt["error_type"] == "TypeError"
        said = next(line for line in caplog.records if line.levelno == logging.WARNING)
        assert said.getMessage() == f"handler raised TypeError: message {bad.message_id} of Jobs, attempt 1"
        assert (vars(said)["queue"], vars(said)["attempt"]) == ("Jobs", 1)

    tell(time, wire, story)
    assert seen == ["done", "TypeError"]


def test_a_plain_function_is_a_handler_too(wire: Wire, time: VirtualTime) -> None:
    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1)
        consumer.handle_delivery("Jobs", wait_ms=0)(lambda job: job.attempt)
        receipt = await client.enqueue("Jobs", 1)
        await consumer.run(limit=1)
        assert (await client.status("Jobs", receipt.message_id))["result"] == 1

    tell(time, wire, story)


def test_fetching_starts_again_after_failures_ever_later(wire: Wire, time: VirtualTime) -> None:
    waits: list[float] = []

    def told(_queue: str, _error: BaseException, wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 4:
            wire.before = lambda _request: None

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, hooks=Hooks(fetch_failed=told))
        consumer.handle_delivery("Jobs", wait_ms=0)(lambda _job: None)
        receipt = await client.enqueue("Jobs", 1)
        wire.before = lambda _request: httpx.Response(400, json={"code": "invalid_request"})
        await consumer.run(drain=True)
        assert (await client.status("Jobs", receipt.message_id))["status"] == "done"

    tell(time, wire, story)
    assert waits == [0.5, 1, 2, 4]


def test_a_stop_lets_handlers_finish_and_gives_back_what_does_not(wire: Wire, time: VirtualTime) -> None:
    async def story(client: AsyncClient) -> None:
        told: list[object] = []
        consumer = consumer_of(client, time, concurrency=2, grace_s=30, hooks=Hooks(lost=told.append))

        @consumer.handle_delivery("Jobs", lease_ms=60_000, wait_ms=0)
        async def work(job: AsyncDelivery) -> None:
            try:
                await asyncio.sleep(job.json())
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        quick, slow, waiting = [await client.enqueue("Jobs", seconds) for seconds in (10, 1_000, 1)]
        await consumer.start()
        await asyncio.sleep(1)
        await consumer.stop()
        statuses = [(await client.status("Jobs", one.message_id))["status"] for one in (quick, slow, waiting)]
        assert statuses == ["done", "ready", "ready"]
        assert told[1:] == ["cancelled"]
        assert [job.attempt for job in await client.claim("Jobs", max=2)] == [1, 1], "no attempt is charged"

    tell(time, wire, story)


def test_no_more_runs_at_once_than_asked_for(wire: Wire, time: VirtualTime) -> None:
    running, most = [0], [0]

    async def handler(_job: AsyncDelivery) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(1)
        running[0] -= 1

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=3)
        consumer.handle_delivery("Jobs", wait_ms=0)(handler)
        consumer.handle_delivery("Wide", wait_ms=0)(handler)
        for number in range(12):
            await client.enqueue("Jobs" if number % 2 else "Wide", number)
        await consumer.run(drain=True)
        for queue in ("Jobs", "Wide"):
            assert await client.claim(queue) == []

    tell(time, wire, story)
    assert most[0] == 3


def test_a_stop_gives_back_what_was_claimed_and_not_started(wire: Wire, time: VirtualTime, client: Client) -> None:
    async def story(asynchronous: AsyncClient) -> None:
        consumer = consumer_of(asynchronous, time, concurrency=2)
        consumer.handle_delivery("Jobs", wait_ms=0)(lambda _job: pytest.fail("was started"))
        wire.after = lambda request: consumer.ask_to_stop() if "dequeue" in request.url.path else None
        await consumer.run()

    sent = [client.enqueue("Jobs", number) for number in range(2)]
    tell(time, wire, story)
    assert [client.status("Jobs", one.message_id)["status"] for one in sent] == ["ready", "ready"]


def test_a_coroutine_past_its_execution_timeout_is_cancelled_and_its_place_is_free(
    wire: Wire, time: VirtualTime
) -> None:
    cancelled: list[bool] = []

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1)

        @consumer.handle("Jobs", wait_ms=0)
        async def work(given: str, context: AsyncContext) -> str:
            if given == "hangs" and context.attempt == 1:
                try:
                    await asyncio.sleep(100_000)
                finally:
                    cancelled.append(context.cancelled.is_set())
            return given

        hangs = await client.enqueue("Jobs", "hangs")
        other = await client.enqueue("Jobs", "other")
        await consumer.run(drain=True)
        found = await client.status("Jobs", hangs.message_id)
        assert [run["error_type"] for run in found["history"]] == ["ExecutionTimeout"]
        assert (await client.status("Jobs", other.message_id))["status"] == "done"

    tell(time, wire, story)
    assert cancelled == [True]


def test_more_plain_functions_run_at_once_than_the_event_loop_has_threads(wire: Wire, time: VirtualTime) -> None:
    """The event loop's own pool is as large as the machine has cores; a consumer's is as large as it was asked for."""
    together = threading.Barrier(40, timeout=30)

    async def story() -> None:
        async with AsyncClient(URL, "mrt_x", transport=wire) as client:
            consumer = consumer_of(client, time, concurrency=40)
            consumer.handle("Jobs", wait_ms=0)(lambda _given: together.wait())
            for number in range(40):
                await client.enqueue("Jobs", number)
            await consumer.run(drain=True)

    asyncio.run(story())
    assert not together.broken
