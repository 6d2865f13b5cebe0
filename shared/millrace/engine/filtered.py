"""Messages that a queue's filter leaves out: acknowledged, recorded, never queued."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.engine.drafts import RESERVED, Checked, check
from millrace.engine.enqueue import Receipt
from millrace.engine.queue import Queue
from millrace.engine.status import FILTERED_PLACE, MessageStatus
from millrace.model.errors import MillraceError, StoreUnavailable
from millrace.model.ids import keyed_message_id
from millrace.model.keys import partition
from millrace.model.message import Body, Draft, Message, Place
from millrace.stores.interface import Applied, Refused


def record_filtered(queue: Queue, draft: Draft, *, system_key: str = "") -> Receipt:
    """Record that the filter left this message out, so that its status can be asked for by id.

    The body is not kept. One write unit; a repeat finds the record there. Raises InvalidRequest, or StoreUnavailable
    where it could not be written.
    """
    (answer,) = record_all_filtered(queue, [check(queue, draft, queue.now(), system_key=system_key)])
    if isinstance(answer, MillraceError):
        raise answer
    return answer


def record_all_filtered(queue: Queue, drafts: Sequence[Checked]) -> list[Receipt | MillraceError]:
    """Record many: a receipt or an error for each, in their order."""
    now = queue.now()
    messages = [filtered_message(queue, checked, now) for checked in drafts]
    answers: list[Receipt | MillraceError] = []
    for message, outcome in zip(messages, queue.store.put_messages(messages), strict=True):
        if not isinstance(outcome, Applied | Refused):
            error = StoreUnavailable("The record of a filtered message got no answer; repeat it.")
            error.__cause__ = outcome.cause
            answers.append(error)
            continue
        answers.append(
            Receipt(
                message.id,
                message.correlation_id,
                message.idempotency_key,
                duplicate=isinstance(outcome, Refused),
                status=MessageStatus.FILTERED,
            )
        )
    return answers


def filtered_id(queue: Queue, checked: Checked) -> str:
    """The id of the record of a filtered message.

    It is apart from the one that the idempotency key would give: a later message of the same key that does pass the
    filter must find its place free.
    """
    return id_when_filtered(queue.tenant, queue.spec.name, checked.id)


def id_when_filtered(tenant: str, queue: str, message_id: str) -> str:
    """The same, of the id that the message would have had."""
    return keyed_message_id(tenant, queue, f"{RESERVED}filtered{RESERVED}{message_id}")


def filtered_message(queue: Queue, checked: Checked, now: int) -> Message:
    """The record of a message that the filter left out."""
    draft = checked.draft
    return Message(
        id=filtered_id(queue, checked),
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
        run=draft.run,
        key=draft.key,
        project=checked.project,
    )
