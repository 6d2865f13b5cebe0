"""`Client` and `AsyncClient`: the same calls, blocking or awaited."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from millrace.client import admin_operations, operations
from millrace.client.delivery import AsyncDelivery, Delivery
from millrace.client.steps import Retries
from millrace.client.transport import Account, AsyncSide, BoundCall, Stream, SyncSide


class Calls:
    """Every call of the API."""

    enqueue = BoundCall(operations.enqueue)
    enqueue_message = BoundCall(operations.enqueue_message)
    enqueue_all = BoundCall(operations.enqueue_all)
    claim = BoundCall(operations.claim)
    ack = BoundCall(operations.ack)
    nack = BoundCall(operations.nack)
    release = BoundCall(operations.release)
    snooze = BoundCall(operations.snooze)
    extend = BoundCall(operations.extend)
    extend_all = BoundCall(operations.extend_all)
    read_state = BoundCall(operations.read_state)
    write_state = BoundCall(operations.write_state)
    status = BoundCall(operations.status)
    read_body = BoundCall(operations.read_body)
    read_input = BoundCall(operations.read_input)
    stream_body = Stream(operations.stream_body)
    queues = BoundCall(operations.queues)
    queue_stats = BoundCall(admin_operations.queue_stats)
    webhooks = BoundCall(admin_operations.webhooks)
    schedules = BoundCall(admin_operations.schedules)
    listed = BoundCall(admin_operations.listed)
    set_paused = BoundCall(admin_operations.set_paused)
    reset_breakers = BoundCall(admin_operations.reset_breakers)
    dead_letter = BoundCall(admin_operations.dead_letter)
    replay = BoundCall(admin_operations.replay)
    purge = BoundCall(admin_operations.purge)
    break_claim = BoundCall(admin_operations.break_claim)
    cancel_message = BoundCall(admin_operations.cancel_message)
    search = BoundCall(admin_operations.search)
    dry_run = BoundCall(admin_operations.dry_run)
    start_job = BoundCall(admin_operations.start_job)
    jobs = BoundCall(admin_operations.jobs)
    job = BoundCall(admin_operations.job)
    cancel_job = BoundCall(admin_operations.cancel_job)
    resume_job = BoundCall(admin_operations.resume_job)
    who_am_i = BoundCall(admin_operations.who_am_i)
    start_erasure = BoundCall(admin_operations.start_erasure)
    erasures = BoundCall(admin_operations.erasures)
    erasure = BoundCall(admin_operations.erasure)
    change_erasure = BoundCall(admin_operations.change_erasure)
    audit_events = BoundCall(admin_operations.audit_events)


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

    def dequeue(
        self,
        queue: str,
        *,
        max: int = 1,  # noqa: A002 (as the API calls it)
        wait_ms: int = 0,
        lease_ms: int | None = None,
        owner: str | None = None,
        project: str | None = None,
        labels: Sequence[str] = (),
        max_priority: int | str | None = None,
        with_state: bool = False,
        with_input: bool = False,
    ) -> list[Delivery]:
        """Claim messages, each a block that must be left with an ack: otherwise it is nacked."""
        claimed = self.claim(
            queue,
            max=max,
            wait_ms=wait_ms,
            lease_ms=lease_ms,
            owner=owner,
            project=project,
            labels=labels,
            max_priority=max_priority,
            with_state=with_state,
            with_input=with_input,
        )
        return [Delivery(self, message) for message in claimed]

    def close(self) -> None:
        """Close its connections."""
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

    async def dequeue(
        self,
        queue: str,
        *,
        max: int = 1,  # noqa: A002 (as the API calls it)
        wait_ms: int = 0,
        lease_ms: int | None = None,
        owner: str | None = None,
        project: str | None = None,
        labels: Sequence[str] = (),
        max_priority: int | str | None = None,
        with_state: bool = False,
        with_input: bool = False,
    ) -> list[AsyncDelivery]:
        """Claim messages, each a block that must be left with an ack: otherwise it is nacked."""
        claimed = await self.claim(
            queue,
            max=max,
            wait_ms=wait_ms,
            lease_ms=lease_ms,
            owner=owner,
            project=project,
            labels=labels,
            max_priority=max_priority,
            with_state=with_state,
            with_input=with_input,
        )
        return [AsyncDelivery(self, message) for message in claimed]

    async def close(self) -> None:
        """Close its connections."""
        await self.http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
