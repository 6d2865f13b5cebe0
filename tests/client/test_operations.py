"""The calls: repeated ones have one effect, and bodies come whole."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from millrace.client import (
    BadRequest,
    Client,
    EnqueueReceipt,
    IdempotencyConflict,
    NewMessage,
    ResourceNotFound,
)
from millrace.engine.enqueue import enqueue
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState
from millrace.pull.service import PullService
from tests.client.conftest import Pauses, Wire


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
    receipts = client.enqueue_all("Jobs", [NewMessage(1), NewMessage(b"2"), NewMessage(3, priority=-1)])
    assert [isinstance(receipt, EnqueueReceipt) for receipt in receipts] == [True, True, False]
    assert isinstance(receipts[2], BadRequest)
    assert len(client.claim("Jobs", max=10)) == 2


@pytest.mark.parametrize("verb", ["nack", "release"])
def test_giving_back_twice_for_want_of_an_answer_is_no_error(client: Client, wire: Wire, verb: str) -> None:
    client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    lost = iter([httpx.ReadTimeout("gone"), None])
    wire.after = lambda _request: next(lost)
    getattr(job, verb)()
    assert job.finished


def test_large_bodies_are_fetched_part_by_part(client: Client, service: PullService, wire: Wire) -> None:
    data = bytes(range(256)) * 20_000
    receipt = enqueue(service.queue(wire.tenant, "Jobs"), Draft(data))
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


def test_breakers_are_reset_one_by_one_or_all_at_once(client: Client, service: PullService, wire: Wire) -> None:
    queue = service.queue(wire.tenant, "Jobs")
    for target in ("http:a", "http:b", "http:c"):
        queue.store.set_breaker(queue.state(fresh=True), target, BreakerState(queue.now() + 5_000, since=queue.now()))
    with pytest.raises(ResourceNotFound):
        client.reset_breakers("Jobs", "http:other")
    assert [one["target"] for one in client.reset_breakers("Jobs", "http:b")["breakers"]] == ["http:a", "http:c"]
    assert client.reset_breakers("Jobs")["breakers"] == []
    assert client.reset_breakers("Jobs")["breakers"] == [], "with none open there is nothing to do"


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
    names: list[Any] = [queue["name"] for queue in client.queue_stats() if queue["paused"]]
    assert names == ["Jobs"]


def test_a_key_with_another_body_raises_with_the_first_messages_id(client: Client) -> None:
    first = client.enqueue("Jobs", {"n": 1}, idempotency_key="k")
    assert client.enqueue("Jobs", {"n": 1}, idempotency_key="k").duplicate
    with pytest.raises(IdempotencyConflict) as refused:
        client.enqueue("Jobs", {"n": 2}, idempotency_key="k")
    assert refused.value.message_id == first.message_id
    again, other = client.enqueue_all("Jobs", [NewMessage({"n": n}, idempotency_key="k") for n in (1, 2)])
    assert isinstance(again, EnqueueReceipt)
    assert isinstance(other, IdempotencyConflict)
