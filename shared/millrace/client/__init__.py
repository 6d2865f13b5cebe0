"""The Python client of the pull API: `Client` and `AsyncClient`, and `Consumer` and `AsyncConsumer` that run handlers.

    with Client("https://…", token) as client:
        client.enqueue("Jobs", {"n": 1})
        for job in client.dequeue("Jobs", wait_ms=20_000):
            with job:
                job.ack(result=work(job.json()))

Needs the extra `client` (httpx).
"""

from millrace.client.async_consumer import AsyncConsumer
from millrace.client.clients import AsyncClient, Client
from millrace.client.consumer import Consumer
from millrace.client.delivery import AsyncDelivery, Delivery
from millrace.client.errors import (
    AccessDenied,
    BadRequest,
    BodyDamaged,
    Busy,
    CallFailed,
    ClaimLost,
    IdempotencyConflict,
    MessageInUse,
    ReplayedBefore,
    RequestRefused,
    ResourceNotFound,
    StateConflict,
    Unreachable,
)
from millrace.client.hooks import Hooks
from millrace.client.model import ClaimedMessage, EnqueueReceipt, ExtendedClaim, Nacked, NewMessage, VersionedState
from millrace.client.steps import Retries
from millrace.model.cursor import Page

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "BadRequest",
    "BodyDamaged",
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
    "IdempotencyConflict",
    "MessageInUse",
    "Nacked",
    "NewMessage",
    "Page",
    "ReplayedBefore",
    "RequestRefused",
    "ResourceNotFound",
    "Retries",
    "StateConflict",
    "Unreachable",
    "VersionedState",
]
