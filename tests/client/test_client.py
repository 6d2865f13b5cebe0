"""The client: one core, two sides; retries that never make two messages of one."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import httpx
import pytest

from millrace.client import (
    AccessDenied,
    AsyncClient,
    BadRequest,
    Busy,
    Client,
    Draft,
    EnqueueReceipt,
    NotFound,
    Refused,
    StaleClaim,
    StaleState,
    Unreachable,
)
from millrace.client.clients import Calls
from tests.client.conftest import URL, Pauses, Wire
from tests.pull.virtual_time import VirtualTime


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


def test_a_repeated_enqueue_is_one_message(client: Client, wire: Wire, pauses: Pauses) -> None:
    """The server did its work and the answer was lost: the client sends again with the key it made up itself."""
    lost = iter([httpx.ReadTimeout("gone"), httpx.RemoteProtocolError("gone"), None, None])
    wire.after = lambda _request: next(lost)
    receipt = client.enqueue("Jobs", "x")
    assert receipt.duplicate
    assert len(client.claim("Jobs", max=10)) == 1
    assert pauses == [0.2, 0.4]


def test_a_repeated_batch_is_no_second_batch(client: Client, wire: Wire) -> None:
    lost = iter([httpx.ReadError("gone"), None, None])
    wire.after = lambda _request: next(lost)
    receipts = client.enqueue_all("Jobs", [Draft(1), Draft(b"2"), Draft(3, priority=-1)])
    assert [isinstance(receipt, EnqueueReceipt) for receipt in receipts] == [True, True, False]
    assert isinstance(receipts[2], BadRequest)
    assert len(client.claim("Jobs", max=10)) == 2


def test_a_dequeue_without_an_answer_is_not_repeated(client: Client, wire: Wire) -> None:
    client.enqueue("Jobs", 1)
    wire.after = lambda _request: httpx.ReadTimeout("gone")
    sent = len(wire.requests)
    with pytest.raises(Unreachable):
        client.claim("Jobs")
    assert len(wire.requests) == sent + 1


def test_a_dequeue_that_never_left_is_repeated(client: Client, wire: Wire) -> None:
    client.enqueue("Jobs", 1)
    lost = iter([httpx.ConnectError("refused"), None])
    wire.before = lambda _request: next(lost)
    assert len(client.claim("Jobs")) == 1


def test_retry_after_is_respected_and_tries_are_bounded(client: Client, wire: Wire, pauses: Pauses) -> None:
    wire.before = lambda _request: httpx.Response(429, headers={"Retry-After": "3"}, json={"code": "too_many_waiting"})
    with pytest.raises(Busy) as refused:
        client.claim("Jobs")
    assert refused.value.code == "too_many_waiting"
    assert pauses == [3.2, 3.4, 3.8]


@pytest.mark.parametrize("verb", ["nack", "release"])
def test_giving_back_twice_for_want_of_an_answer_is_no_error(client: Client, wire: Wire, verb: str) -> None:
    client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    lost = iter([httpx.ReadTimeout("gone"), None])
    wire.after = lambda _request: next(lost)
    getattr(job, verb)()
    assert job.finished


def test_a_stale_claim_names_the_current_version(client: Client, time: VirtualTime) -> None:
    client.enqueue("Jobs", 1)
    (stale,) = client.dequeue("Jobs", lease_ms=1_000)
    time.forward(2_000)
    (newer,) = client.dequeue("Jobs")
    for act in (stale.ack, stale.nack, stale.release, stale.extend, stale.read_state):
        with pytest.raises(StaleClaim) as refused:
            act()
        assert refused.value.current_version == newer.message.version
    newer.write_state("a")
    newer.state_version = 0
    with pytest.raises(StaleState) as conflict:
        newer.write_state("b")
    assert conflict.value.current_version == 1


def test_a_block_left_without_an_ack_is_nacked(client: Client, time: VirtualTime) -> None:
    receipt = client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    with job:
        pass
    (attempt,) = client.status("Jobs", receipt.message_id)["history"]
    assert attempt["error_type"] == "LeftWithoutAck"
    time.forward(60_000)
    (job,) = client.dequeue("Jobs")
    with pytest.raises(KeyboardInterrupt), job:
        raise KeyboardInterrupt
    (job,) = client.dequeue("Jobs")
    assert job.message.attempt == 2, "a program that is being ended gives back, and charges nothing"


def test_large_bodies_are_fetched_part_by_part(client: Client) -> None:
    data = bytes(range(256)) * 20_000
    receipt = client.enqueue("Jobs", data)
    (job,) = client.dequeue("Jobs")
    assert job.message.body is None
    with pytest.raises(ValueError, match="read_body"):
        _ = job.body
    assert job.read_body() == data
    assert b"".join(client.stream_body("Jobs", receipt.message_id, part_bytes=999_999)) == data
    assert b"".join(job.stream_body()) == data


def test_an_empty_body_is_read_too(client: Client) -> None:
    receipt = client.enqueue("Jobs", b"")
    assert client.read_body("Jobs", receipt.message_id) == b""


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx.Response(403, json={"message": "Forbidden"}), AccessDenied),
        (httpx.Response(401, json={"message": "Unauthorized"}), AccessDenied),
        (httpx.Response(404, text="<html>"), NotFound),
        (httpx.Response(502, text="<html>"), Busy),
        (httpx.Response(418), BadRequest),
        (httpx.Response(302, headers={"Location": "/"}), BadRequest),
    ],
)
def test_a_proxys_own_words_are_understood(
    client: Client, wire: Wire, answer: httpx.Response, kind: type[Refused]
) -> None:
    wire.before = lambda _request: answer
    with pytest.raises(kind):
        client.queues()


def test_operators_calls(client: Client) -> None:
    receipt = client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    assert client.listed("Jobs", "claims").items[0]["message_id"] == receipt.message_id
    assert job.nack(reject=True, error="x" * 9_000).outcome == "dead"
    (dead_letter,) = client.listed("Jobs", "dead-letters", {"limit": "5", "error": "xx", "cursor": None}).items
    assert client.dead_letter("Jobs", dead_letter["id"])["body"] == 1
    new_id = client.replay("Jobs", dead_letter["id"])
    assert client.status("Jobs", new_id)["origin"] == receipt.message_id
    client.purge("Jobs", dead_letter["id"])
    assert client.set_paused("Jobs", paused=True)["paused"]
    names: list[Any] = [queue["name"] for queue in client.queues() if queue["paused"]]
    assert names == ["Jobs"]
