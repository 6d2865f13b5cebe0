"""The `queue` target: the rendered input becomes a message of another queue, exactly once.

Its idempotency key is derived from the message, its nonce and the target's place, so a retry, a second worker or a
crash in between meets the message that is there. The other queue's window must outlast the retries: past it a
finished message's key is free again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from millrace.definitions import QueueDefinition
from millrace.engine.drafts import RESERVED
from millrace.engine.enqueue import enqueue
from millrace.model.errors import QueueFull
from millrace.model.message import Draft
from millrace.worker.context import Context
from millrace.worker.targets.request import TargetRequest, Throttled

#: Messages whose key has no value share this one, so that they stay in order among themselves.
NO_KEY = "(none)"


class QueueDelivery:
    """Enqueues into another queue of the same tenant."""

    def __init__(self, definition_of: Callable[[str], QueueDefinition]) -> None:
        self._definition_of = definition_of

    def __call__(self, context: Context, request: TargetRequest) -> Any:
        definition = self._definition_of(request.destination)
        message = context.message
        key = definition.key_of(request.given)
        draft = Draft(
            json.dumps(request.given, separators=(",", ":"), ensure_ascii=False).encode(),
            key=(key or NO_KEY) if definition.spec.keyed else "",
            correlation_id=context.correlation_id,
            source=f"queue:{message.queue}",
            origin=message.id,
        )
        system_key = RESERVED.join(("", "chain", message.id, message.nonce, str(request.index)))
        other = context.queue.runtime.queue(context.queue.tenant, definition.spec)
        try:
            receipt = enqueue(other, draft, system_key=system_key)
        except QueueFull as full:
            raise Throttled(full.retry_after, str(full)) from full
        return {"queue": definition.name, "message_id": receipt.message_id}
