"""Millrace: a serverless queue for webhooks and jobs on AWS.

The public names, by what they are for. Each is imported when it is first used, so that `import millrace` costs a
function nothing, and a handler needs neither boto3 nor httpx.

    handlers    command, Context, AsyncContext, Batch, BatchItem; raise Retry, Reject, Snooze or Unavailable to say
                what becomes of a message
    clients     Client, Consumer, Delivery, and AsyncClient, AsyncConsumer, AsyncDelivery: the pull API from
                elsewhere (extra `client`); their errors and the rest are in `millrace.client`
    embedding   Runtime and Queue over a store (MemoryStore, MemoryBlobs, or `millrace.aws.runtime.aws_runtime`),
                and the verbs: enqueue, claim, ack, nack, reject, release, snooze, extend, status; compiled
                queue definitions are loaded by `millrace.definitions.load`
    transactions  Transactions and Transaction: enqueue together with writes of one's own
    errors      MillraceError, and those below it that a caller tells apart: see `millrace.model.errors`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.admission.transaction import Transaction
    from millrace.aws.transactions import Transactions
    from millrace.client.async_consumer import AsyncConsumer
    from millrace.client.clients import AsyncClient, Client
    from millrace.client.consumer import Consumer
    from millrace.client.delivery import AsyncDelivery, Delivery
    from millrace.engine.claim import Claim, body_of, claim
    from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
    from millrace.engine.finish import RunFailure, ack, extend, nack, reject, release, snooze
    from millrace.engine.queue import Queue, Runtime
    from millrace.engine.status import MessageStatus, status
    from millrace.handlers.batches import Batch, BatchItem
    from millrace.handlers.context import AsyncContext, Context
    from millrace.handlers.controls import Reject, Retry, Snooze, Unavailable
    from millrace.model.errors import (
        DuplicateMessage,
        InvalidRequest,
        InvalidTransaction,
        MillraceError,
        NotFound,
        QueueFull,
        StaleClaim,
        StaleState,
        StoreUnavailable,
        TransactionRefused,
    )
    from millrace.model.message import Draft
    from millrace.model.queue_spec import Idempotency, Ordering, QueueSpec, Retention, RetryPolicy
    from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
    from millrace.worker.commands import command

_MODULES = {
    "admission.transaction": ("Transaction",),
    "aws.transactions": ("Transactions",),
    "client.async_consumer": ("AsyncConsumer",),
    "client.clients": ("AsyncClient", "Client"),
    "client.consumer": ("Consumer",),
    "client.delivery": ("AsyncDelivery", "Delivery"),
    "engine.claim": ("Claim", "body_of", "claim"),
    "engine.enqueue": ("Receipt", "enqueue", "enqueue_all"),
    "engine.finish": ("RunFailure", "ack", "extend", "nack", "reject", "release", "snooze"),
    "engine.queue": ("Queue", "Runtime"),
    "engine.status": ("MessageStatus", "status"),
    "handlers.batches": ("Batch", "BatchItem"),
    "handlers.context": ("AsyncContext", "Context"),
    "handlers.controls": ("Reject", "Retry", "Snooze", "Unavailable"),
    "model.errors": (
        "InvalidRequest", "MillraceError", "NotFound", "QueueFull", "StaleClaim", "StaleState", "StoreUnavailable",
        "DuplicateMessage", "InvalidTransaction", "TransactionRefused",
    ),
    "model.message": ("Draft",),
    "model.queue_spec": ("Idempotency", "Ordering", "QueueSpec", "Retention", "RetryPolicy"),
    "stores.memory.queue": ("MemoryBlobs", "MemoryStore"),
    "worker.commands": ("command",),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncContext",
    "AsyncDelivery",
    "Batch",
    "BatchItem",
    "Claim",
    "Client",
    "Consumer",
    "Context",
    "Delivery",
    "Draft",
    "DuplicateMessage",
    "Idempotency",
    "InvalidRequest",
    "InvalidTransaction",
    "MemoryBlobs",
    "MemoryStore",
    "MessageStatus",
    "MillraceError",
    "NotFound",
    "Ordering",
    "Queue",
    "QueueFull",
    "QueueSpec",
    "Receipt",
    "Reject",
    "Retention",
    "Retry",
    "RetryPolicy",
    "RunFailure",
    "Runtime",
    "Snooze",
    "StaleClaim",
    "StaleState",
    "StoreUnavailable",
    "Transaction",
    "TransactionRefused",
    "Transactions",
    "Unavailable",
    "ack",
    "body_of",
    "claim",
    "command",
    "enqueue",
    "enqueue_all",
    "extend",
    "nack",
    "reject",
    "release",
    "snooze",
    "status",
]


def __getattr__(name: str) -> Any:
    """A public name, imported from its module when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'millrace' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"millrace.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
