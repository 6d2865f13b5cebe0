"""The Python client of the pull API: `Client`, `AsyncClient`, and the `Consumer` that runs handlers.

    with Client("https://…", token) as client:
        client.enqueue("Jobs", {"n": 1})
        for job in client.dequeue("Jobs", wait_ms=20_000):
            with job:
                job.ack(result=work(job.json()))

Needs the extra `client` (httpx).
"""

from millrace.client.clients import AsyncClient, Client
from millrace.client.consumer import Consumer, Hooks
from millrace.client.delivery import AsyncDelivery, Delivery
from millrace.client.errors import (
    AccessDenied,
    BadRequest,
    Busy,
    CallFailed,
    ClaimLost,
    RequestRefused,
    ResourceNotFound,
    StateConflict,
    Unreachable,
)
from millrace.client.model import ClaimedMessage, EnqueueReceipt, ExtendedClaim, Nacked, NewMessage, VersionedState
from millrace.client.steps import Retries
from millrace.model.cursor import Page

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "AsyncDelivery",
    "BadRequest",
    "Busy",
    "CallFailed",
    "ClaimLost",
    "ClaimedMessage",
    "Client",
    "Consumer",
    "Delivery",
    "EnqueueReceipt",
    "ExtendedClaim",
    "Hooks",
    "Nacked",
    "NewMessage",
    "Page",
    "RequestRefused",
    "ResourceNotFound",
    "Retries",
    "StateConflict",
    "Unreachable",
    "VersionedState",
]
