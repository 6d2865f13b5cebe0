"""`Client` and `AsyncClient`: the same calls, blocking or awaited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import httpx

from millrace.client import operations
from millrace.client.delivery import AsyncDelivery, Delivery
from millrace.client.steps import Retries
from millrace.client.transport import Account, AsyncSide, BoundCall, Stream, SyncSide


class Wanted(TypedDict, total=False):
    """What a dequeue may ask for."""

    max: int
    wait_ms: int
    lease_ms: int | None
    owner: str | None
    project: str | None
    labels: Sequence[str]
    max_priority: int | str | None
    with_state: bool


class Calls:
    """Every call of the API."""

    enqueue = BoundCall(operations.enqueue)
    enqueue_message = BoundCall(operations.enqueue_message)
    enqueue_all = BoundCall(operations.enqueue_all)
    claim = BoundCall(operations.claim)
    ack = BoundCall(operations.ack)
    nack = BoundCall(operations.nack)
    release = BoundCall(operations.release)
    extend = BoundCall(operations.extend)
    extend_all = BoundCall(operations.extend_all)
    read_state = BoundCall(operations.read_state)
    write_state = BoundCall(operations.write_state)
    status = BoundCall(operations.status)
    read_body = BoundCall(operations.read_body)
    stream_body = Stream(operations.stream_body)
    queues = BoundCall(operations.queues)
    queue_stats = BoundCall(operations.queue_stats)
    listed = BoundCall(operations.listed)
    set_paused = BoundCall(operations.set_paused)
    reset_breakers = BoundCall(operations.reset_breakers)
    dead_letter = BoundCall(operations.dead_letter)
    replay = BoundCall(operations.replay)
    purge = BoundCall(operations.purge)


class Client(SyncSide, Calls):
    """The API, blocking. Safe to share between threads.

    with Client(url, token) as client:
        client.enqueue("Jobs", {"n": 1})
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tenant: str | None = None,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.account = Account(url, token, tenant, retries or Retries())
        self.http = httpx.Client(transport=transport, limits=httpx.Limits(max_connections=None))

    def dequeue(self, queue: str, **wanted: Unpack[Wanted]) -> list[Delivery]:
        """Claim messages, each a block that must be left with an ack: otherwise it is nacked."""
        return [Delivery(self, message) for message in self.claim(queue, **wanted)]

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(AsyncSide, Calls):
    """The API with asyncio."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tenant: str | None = None,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.account = Account(url, token, tenant, retries or Retries())
        self.http = httpx.AsyncClient(transport=transport, limits=httpx.Limits(max_connections=None))

    async def dequeue(self, queue: str, **wanted: Unpack[Wanted]) -> list[AsyncDelivery]:
        """Claim messages, each a block that must be left with an ack: otherwise it is nacked."""
        return [AsyncDelivery(self, message) for message in await self.claim(queue, **wanted)]

    async def close(self) -> None:
        await self.http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
