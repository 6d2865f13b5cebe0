"""Consumers of batches: one call for several messages, each of which ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from millrace import AsyncClient, AsyncConsumer, Batch, Client, Consumer, Reject, Retry, Snooze
from millrace.client import Delivery, Hooks
from tests.client.conftest import Wire
from tests.client.test_async_consumer import consumer_of, tell
from tests.pull.virtual_time import VirtualTime

Answer = Callable[[Batch], Any]


def worked(client: Client, handler: Answer, queue: str = "Jobs", **settings: Any) -> list[list[Any]]:
    """The inputs of each call until nothing is ready."""
    calls: list[list[Any]] = []
    consumer = Consumer(client, concurrency=1, **settings)

    @consumer.handle(queue, wait_ms=0, batch=10)
    def noted(batch: Batch) -> Any:
        calls.append(batch.inputs)
        return handler(batch)

    consumer.run(drain=True)
    return calls


def sent(client: Client, count: int, queue: str = "Jobs", **fields: Any) -> list[str]:
    return [client.enqueue(queue, n, **fields).message_id for n in range(count)]


def statuses(client: Client, ids: list[str], queue: str = "Jobs") -> list[str]:
    return [client.status(queue, one)["status"] for one in ids]


def test_messages_come_together_and_end_each_by_itself(client: Client) -> None:
    def handler(batch: Batch) -> None:
        for item, error in zip(
            batch[1:], (Retry(after=60), Reject("no"), Snooze(after=60), ValueError("x")), strict=False
        ):
            item.fail(error)
        batch[0].result = {"of": batch[0].context.message_id}

    ids = sent(client, 6)
    done: list[Delivery] = []
    assert worked(client, handler, hooks=Hooks(done=done.append)) == [[0, 1, 2, 3, 4, 5]]
    assert statuses(client, ids) == ["done", "scheduled", "dead", "scheduled", "scheduled", "done"]
    assert client.status("Jobs", ids[0])["result"] == {"of": ids[0]}
    assert len(done) == 2
    attempts = [len(client.status("Jobs", ids[n])["history"]) for n in (1, 3, 4)]
    assert attempts == [1, 0, 1]


def test_one_poison_message_buries_nobody_else(client: Client, time: VirtualTime) -> None:
    def handler(batch: Batch) -> None:
        if 3 in batch.inputs:
            raise ValueError("poison")

    ids = sent(client, 6)
    calls = worked(client, handler)
    for _ in range(6):
        time.forward(60_000)
        calls += worked(client, handler)
    assert calls[0] == [0, 1, 2, 3, 4, 5]
    assert {len(call) for call in calls[1:]} == {1}, "who failed with others runs alone"
    assert statuses(client, ids) == ["done", "done", "done", "dead", "done", "done"]


def test_in_a_fifo_queue_nothing_is_done_before_what_failed_ahead_of_it(client: Client, time: VirtualTime) -> None:
    failing = {2}

    def handler(batch: Batch) -> None:
        for item in batch:
            if item.input in failing:
                item.fail(Retry(after=1))

    ids = sent(client, 5, "Ordered")
    assert worked(client, handler, "Ordered") == [[0, 1, 2, 3, 4]]
    assert statuses(client, ids, "Ordered") == ["done", "done", "scheduled", "ready", "ready"]
    failing.clear()
    time.forward(1_000)
    assert worked(client, handler, "Ordered") == [[2], [3, 4]], "in their order"
    assert set(statuses(client, ids, "Ordered")) == {"done"}
    assert client.status("Ordered", ids[4])["history"] == []


def test_what_lies_behind_a_failed_call_of_a_fifo_queue_is_given_back(client: Client, time: VirtualTime) -> None:
    def handler(_batch: Batch) -> None:
        raise Retry(after=1)

    ids = sent(client, 3, "Ordered")
    assert worked(client, handler, "Ordered") == [[0, 1, 2]]
    assert statuses(client, ids, "Ordered") == ["scheduled", "ready", "ready"], "the first failed, the rest waits"
    time.forward(1_000)
    assert worked(client, handler, "Ordered") == [[0]], "alone; those behind it are not given to the handler"
    assert client.status("Ordered", ids[1])["history"] == []


def test_an_input_that_cannot_be_had_keeps_no_other_waiting(
    client: Client, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = sent(client, 3)
    read = Delivery.read_input

    def broken(self: Delivery) -> Any:
        found = read(self)
        if found == 1:
            raise Reject("no input")
        return found

    monkeypatch.setattr(Delivery, "read_input", broken)
    assert worked(client, lambda _batch: None) == [[0, 2]]
    assert statuses(client, ids) == ["done", "dead", "done"]


def test_a_stale_ack_ends_its_own_message_alone(client: Client, wire: Wire) -> None:
    lost: list[Delivery] = []

    def handler(_batch: Batch) -> None:
        refused = iter([httpx.Response(409, json={"code": "stale_claim", "current_version": 2})])
        wire.before = lambda request: next(refused, None) if request.url.path.endswith("/ack") else None

    ids = sent(client, 3)
    worked(client, handler, hooks=Hooks(lost=lost.append))
    assert [job.message.message_id for job in lost] == ids[:1]
    assert statuses(client, ids)[1:] == ["done", "done"]


def test_the_limit_counts_messages(client: Client) -> None:
    ids = sent(client, 5)
    calls: list[int] = []
    consumer = Consumer(client, concurrency=1)
    consumer.handle("Jobs", wait_ms=0, batch=10)(lambda batch: calls.append(len(batch)))
    consumer.run(limit=3)
    assert calls == [3]
    assert statuses(client, ids).count("done") == 3


def test_settings_are_checked_when_a_handler_is_registered(client: Client) -> None:
    with pytest.raises(ValueError, match="`batch` is 1 to 100"):
        Consumer(client).handle("Jobs", batch=0)


# -- on an event loop ------------------------------------------------------------------------------------------


async def patient(dequeue: Any, queue: str, *, wait_ms: int, **options: Any) -> Any:
    """A long poll that does not hold up the event loop, which the API shares with the consumer here."""
    for _ in range(0, wait_ms + 1, 100):
        found = await dequeue(queue, wait_ms=0, **options)
        if found:
            return found
        await asyncio.sleep(0.1)
    return []


def test_a_batch_waits_for_company_and_a_full_one_does_not(
    wire: Wire, time: VirtualTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, list[Any]]] = []

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=2)
        monkeypatch.setattr(client, "dequeue", partial(patient, client.dequeue))
        began = time()

        @consumer.handle("Jobs", wait_ms=1_000, batch=3, batch_wait_ms=5_000)
        async def handler(batch: Batch) -> list[int]:
            calls.append((time() - began, batch.inputs))
            assert await batch[0].context.read_body()
            return [item.input * 2 for item in batch]

        ids = [(await client.enqueue("Jobs", n)).message_id for n in range(2)]
        await consumer.start()
        await asyncio.sleep(2)
        ids += [(await client.enqueue("Jobs", n)).message_id for n in (2, 3)]
        await asyncio.sleep(8)
        await consumer.stop()
        results = [(await client.status("Jobs", one))["result"] for one in ids]
        assert results == [0, 2, 4, 6]

    tell(time, wire, story)
    assert [inputs for _, inputs in calls] == [[0, 1, 2], [3]]
    assert calls[0][0] < 5_000 <= calls[1][0] - calls[0][0] + 500


@pytest.mark.parametrize("plain", [False, True])
def test_functions_and_coroutine_functions_take_batches(wire: Wire, time: VirtualTime, plain: bool) -> None:
    calls: list[list[Any]] = []

    async def story(client: AsyncClient) -> None:
        consumer: AsyncConsumer = consumer_of(client, time, concurrency=2)

        async def handler(batch: Batch) -> None:
            calls.append(batch.inputs)

        consumer.handle("Jobs", wait_ms=0, batch=5)((lambda batch: calls.append(batch.inputs)) if plain else handler)
        for n in range(3):
            await client.enqueue("Jobs", n)
        await consumer.run(drain=True)

    tell(time, wire, story)
    assert calls == [[0, 1, 2]]


def test_a_batch_of_which_one_has_more_time_goes_on(wire: Wire, time: VirtualTime) -> None:
    """The run of the other is over; the handler is cancelled only when nothing of it counts any more."""

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1)

        @consumer.handle("Jobs", wait_ms=0, batch=5)
        async def handler(batch: Batch) -> None:
            await batch[1].context.extend(1_000)
            await asyncio.sleep(400)
            assert batch[0].context.cancelled.is_set()

        first, second = [(await client.enqueue("Jobs", n)).message_id for n in range(2)]
        await consumer.run(limit=2)
        (attempt,) = (await client.status("Jobs", first))["history"]
        assert attempt["error_type"] == "ExecutionTimeout"
        assert (await client.status("Jobs", second))["status"] == "done"

    tell(time, wire, story)


def test_a_batch_past_its_time_is_cancelled_and_charged(wire: Wire, time: VirtualTime) -> None:
    ended: list[str] = []

    async def story(client: AsyncClient) -> None:
        consumer = consumer_of(client, time, concurrency=1)

        @consumer.handle("Jobs", wait_ms=0, batch=5)
        async def handler(_batch: Batch) -> None:
            try:
                await asyncio.sleep(100_000)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        ids = [(await client.enqueue("Jobs", n)).message_id for n in range(2)]
        await consumer.run(limit=2)
        for one in ids:
            (attempt,) = (await client.status("Jobs", one))["history"]
            assert attempt["error_type"] == "ExecutionTimeout"

    tell(time, wire, story)
    assert ended == ["cancelled"]
