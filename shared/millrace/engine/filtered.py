"""Messages that a queue's filter leaves out: acknowledged, recorded, never queued."""

from __future__ import annotations

from millrace.engine.drafts import RESERVED, check
from millrace.engine.enqueue import Receipt
from millrace.engine.queue import Queue
from millrace.engine.status import FILTERED_PLACE, MessageStatus
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import keyed_message_id
from millrace.model.keys import partition
from millrace.model.message import Body, Draft, Message, Place
from millrace.stores.interface import Applied, Refused


def record_filtered(queue: Queue, draft: Draft) -> Receipt:
    """Record that the filter left this message out, so that its status can be asked for by id.

    The record has an id of its own, apart from the one that its idempotency key would give: a later message of the
    same key that does pass the filter must find its place free. The body is not kept. One write unit; a repeat
    finds the record there. Raises InvalidRequest, or StoreUnavailable where it could not be written.
    """
    now = queue.now()
    checked = check(queue, draft, now)
    key = draft.idempotency_key or checked.id
    message = Message(
        id=keyed_message_id(queue.tenant, queue.spec.name, f"{RESERVED}filtered{RESERVED}{key}"),
        tenant=queue.tenant,
        queue=queue.spec.name,
        nonce=checked.nonce,
        place=Place(partition(queue.tenant, queue.spec.name, 0), FILTERED_PLACE),
        body=Body(),
        content_type=draft.content_type,
        received_at=now,
        dedupe_until=now,
        ttl=queue.spec.message_ttl(now),
        headers=draft.headers,
        correlation_id=checked.correlation_id,
        idempotency_key=draft.idempotency_key or "",
        source=draft.source,
    )
    (outcome,) = queue.store.put_messages([message])
    if not isinstance(outcome, Applied | Refused):
        raise StoreUnavailable("The record of a filtered message got no answer; repeat it.") from outcome.cause
    return Receipt(
        message.id,
        message.correlation_id,
        message.idempotency_key,
        duplicate=isinstance(outcome, Refused),
        status=MessageStatus.FILTERED,
    )
