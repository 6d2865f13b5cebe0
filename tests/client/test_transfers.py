"""Large bodies through the client: uploaded where a request does not carry them, downloaded under their claim."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from millrace.client import AsyncClient, BadRequest, BodyDamaged, ClaimLost, Client, IdempotencyConflict, Retries
from millrace.client.transfers import PART_BYTES, fits_request
from millrace.http.event_body import MAX_BINARY_BYTES, MAX_ENCODED_BYTES
from millrace.pull.service import PullService
from millrace.stores.memory.uploads import MemoryUploads
from tests.client.conftest import URL, Wire
from tests.pull.virtual_time import VirtualTime

DATA = bytes(range(256)) * 40_000  # 10 MB


def paths(wire: Wire) -> list[str]:
    return [f"{request.method} {request.url.path.rsplit('/', 1)[1]}" for request in wire.requests]


@pytest.mark.parametrize(
    ("content", "content_type", "fits"),
    [
        (b"\xff" * MAX_BINARY_BYTES, "application/octet-stream", True),
        (b"\xff" * (MAX_BINARY_BYTES + 1), "application/octet-stream", False),
        (b"x" * MAX_ENCODED_BYTES, "application/json", True),
        (b"x" * MAX_ENCODED_BYTES, "application/pdf", False),
        (b'"' * (MAX_ENCODED_BYTES // 2 + 1_600_000), "text/plain", False),
    ],
)
def test_what_a_request_carries_is_not_uploaded(content: bytes, content_type: str, fits: bool) -> None:
    assert fits_request(content, content_type) is fits


def test_a_large_body_goes_up_and_comes_down_in_the_same_bytes(client: Client, wire: Wire) -> None:
    receipt = client.enqueue("Files", DATA, content_type="video/mp4", headers={"x-name": "clip"}, labels=["eu"])
    assert paths(wire) == ["POST uploads", f"PUT {sha256(DATA).hexdigest()}", "POST messages"]
    (job,) = client.dequeue("Files")
    assert (job.message.message_id, job.message.content_type) == (receipt.message_id, "video/mp4")
    assert (job.message.headers["x-name"], job.message.labels) == ("clip", ("eu",))
    del wire.requests[:]
    assert b"".join(job.stream_body()) == DATA
    assert len(wire.requests) == 1 + -(-len(DATA) // PART_BYTES)
    assert job.read_body() == DATA
    job.ack()


def test_json_that_no_request_carries_is_uploaded_as_json(client: Client) -> None:
    rows = [{"name": "ä" * 90, "n": n} for n in range(40_000)]
    client.enqueue("Files", rows)
    (job,) = client.dequeue("Files")
    assert job.message.content_type == "application/json"
    assert json.loads(job.read_body()) == rows
    assert job.read_input() == rows


def test_a_repeat_transfers_nothing_again(client: Client, wire: Wire) -> None:
    first = client.enqueue("Files", DATA, idempotency_key="k")
    del wire.requests[:]
    again = client.enqueue("Files", DATA, idempotency_key="k")
    assert (again.message_id, again.duplicate) == (first.message_id, True)
    assert paths(wire) == ["POST uploads", "POST messages"]
    with pytest.raises(IdempotencyConflict):
        client.enqueue("Files", DATA[1:], idempotency_key="k")


def test_a_transfer_without_an_answer_is_sent_again(client: Client, wire: Wire) -> None:
    failures: Iterator[httpx.Response | Exception] = iter([httpx.ReadTimeout("lost"), httpx.Response(503)])

    def before(request: httpx.Request) -> httpx.Response | Exception | None:
        return next(failures, None) if request.method == "PUT" else None

    wire.before = before
    client.enqueue("Files", DATA)
    (job,) = client.dequeue("Files")
    assert job.read_body() == DATA


def test_a_url_that_ended_is_asked_for_again_under_the_claim(client: Client, wire: Wire, time: VirtualTime) -> None:
    client.enqueue("Files", DATA)
    (job,) = client.dequeue("Files")
    parts = job.stream_body()
    whole = next(parts)
    ended = iter([httpx.Response(403)])
    wire.before = lambda request: next(ended, None) if request.url.host == "uploads.memory" else None
    whole += b"".join(parts)
    assert whole == DATA
    (asked,) = [client.dequeue("Files")]
    assert asked == []
    time.forward(31_000)
    client.dequeue("Files")
    with pytest.raises(ClaimLost):
        job.read_body()


def test_bytes_that_are_not_what_was_sent_are_no_body(client: Client, service: PullService) -> None:
    client.enqueue("Files", DATA)
    (job,) = client.dequeue("Files")
    uploads = service.runtime.uploads._maybe
    assert isinstance(uploads, MemoryUploads)
    (blob,) = [place for place in uploads._blobs.objects if not place.startswith("_")]
    uploads._blobs.objects[blob] = DATA[:-1] + b"!"
    with pytest.raises(BodyDamaged):
        job.read_body()


def test_a_queue_that_takes_no_such_body_says_so(client: Client) -> None:
    with pytest.raises(BadRequest, match="body_too_large"):
        client.enqueue("Small", DATA)


def test_the_awaited_client_does_the_same(wire: Wire) -> None:
    async def both_ways() -> bytes:
        transport = httpx.MockTransport(wire._carry)
        async with AsyncClient(URL, "mrt_x", retries=Retries(), transport=transport) as client:
            await client.enqueue("Files", DATA)
            (job,) = await client.dequeue("Files")
            async with job:
                got = b"".join([part async for part in job.stream_body()])
                await job.ack()
            return got

    assert asyncio.run(both_ways()) == DATA
