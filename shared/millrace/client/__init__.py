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
    NotFound,
    Refused,
    StaleClaim,
    StaleState,
    Unreachable,
)
from millrace.client.model import Draft, EnqueueReceipt, Message, Nacked, Page, WorkflowState
from millrace.client.steps import Retries

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "AsyncDelivery",
    "BadRequest",
    "Busy",
    "CallFailed",
    "Client",
    "Consumer",
    "Delivery",
    "Draft",
    "EnqueueReceipt",
    "Hooks",
    "Message",
    "Nacked",
    "NotFound",
    "Page",
    "Refused",
    "Retries",
    "StaleClaim",
    "StaleState",
    "Unreachable",
    "WorkflowState",
]
