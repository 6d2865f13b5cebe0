"""Both clients: the same calls, blocking or awaited."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from millrace.client import (
    AsyncClient,
    Client,
)
from millrace.client.clients import Calls
from tests.client.conftest import URL, Wire


def test_a_message_lives_its_whole_life(client: Client) -> None:
    receipt = client.enqueue("Jobs", {"n": 1}, labels=["a"], correlation_id="trace")
    (job,) = client.dequeue("Jobs", owner="me", with_state=True)
    assert (job.json(), job.message.attempt, job.message.correlation_id) == ({"n": 1}, 1, "trace")
    with job:
        job.write_state({"step": 1})
        job.write_state({"step": 2})
        assert job.read_state() == {"step": 2}
        job.extend(60_000)
        job.ack({"made": 7})
    found = client.status("Jobs", receipt.message_id)
    assert (found["status"], found["result"]) == ("done", {"made": 7})


async def _life(wire: Wire) -> None:
    async with AsyncClient(URL, "mrt_x", transport=wire) as client:
        receipt = await client.enqueue("Jobs", b"\x00\xff", content_type="image/x", labels=["a", "b"])
        (job,) = await client.dequeue("Jobs")
        async with job:
            assert (job.body, job.message.labels) == (b"\x00\xff", ("a", "b"))
            await job.ack(b"\x01")
        assert (await client.status("Jobs", receipt.message_id))["status"] == "done"
        big = await client.enqueue("Jobs", b"x" * 3_000_000)
        sizes = [len(part) async for part in client.stream_body("Jobs", big.message_id)]
        assert sizes == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]
        (job,) = await client.dequeue("Jobs")
        with pytest.raises(ZeroDivisionError):
            async with job:
                raise ZeroDivisionError
        assert (await client.status("Jobs", big.message_id))["history"][0]["error_type"] == "ZeroDivisionError"


def test_the_asynchronous_side_does_the_same(wire: Wire) -> None:
    asyncio.run(_life(wire))


def test_both_sides_have_the_same_calls_and_no_twins() -> None:
    names = {name for name in vars(Calls) if not name.startswith("_")}
    own = {name for side in (Client, AsyncClient) for name in vars(side) if not name.startswith("_")}
    assert len(names) >= 20
    assert own == {"dequeue", "close"}, "what is written for each side by hand stays this short"
    assert not inspect.iscoroutinefunction(Client.dequeue)
