"""The `queue` target: the rendered input becomes a message of another queue, exactly once.

Its idempotency key is the one that the other queue's definition reads from it; else it is derived from the message,
its nonce and the target's place. So a retry, a second worker or a crash in between meets the message that is there.
The other queue's window must outlast the retries: past it a finished message's key is free again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from millrace.admission.admit import accept
from millrace.definitions import QueueDefinition
from millrace.engine.drafts import RESERVED
from millrace.handlers.controls import Reject
from millrace.model.errors import InvalidRequest, KeyUnavailable, QueueFull
from millrace.model.message import Draft
from millrace.model.trace_context import onward_trace
from millrace.worker.context import RunContext
from millrace.worker.targets.request import TargetRequest, Throttled


class QueueDelivery:
    """Enqueues into another queue of the same tenant."""

    def __init__(self, definition_of: Callable[[str], QueueDefinition]) -> None:
        self._definition_of = definition_of

    def __call__(self, context: RunContext, request: TargetRequest) -> Any:
        definition = self._definition_of(request.destination)
        message = context.message
        draft = Draft(
            json.dumps(request.given, separators=(",", ":"), ensure_ascii=False).encode(),
            headers=onward_trace(message.headers),
            correlation_id=context.correlation_id,
            source=f"queue:{message.queue}",
            origin=message.id,
        )
        system_key = RESERVED.join(("", "chain", message.id, message.nonce, str(request.index)))
        other = context.queue.runtime.queue(context.queue.tenant, definition.spec)
        try:
            receipt = accept(other, definition, draft, system_key=system_key)
        except InvalidRequest as problem:
            raise Reject(f"Queue {definition.name!r} does not take it: {problem}") from problem
        except QueueFull as full:
            raise Throttled(full.retry_after, str(full)) from full
        except KeyUnavailable as error:
            raise Throttled(None, str(error)) from error
        return {"queue": definition.name, "message_id": receipt.message_id}
