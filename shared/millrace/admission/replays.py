"""Messages that have ended, as they are handed in again: one rule for the admin's jobs and for Spark.

A new message points to the one that it comes from (`origin`), keeps its correlation id, headers and source, and passes
the admission of the queue that it goes to. Another queue than its own decides itself on key and priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.admission.admit import admit
from millrace.definitions import QueueDefinition
from millrace.engine.dead_letters import message_replay_key
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Queue
from millrace.engine.uploads import stored_again
from millrace.model.journal import EFFECTS, effect_root
from millrace.model.keys import may_set_priority
from millrace.model.message import DeadLetter, Draft, Message, StoredBody
from millrace.model.queue_spec import MAX_BODY_BYTES, QueueSpec


@dataclass(frozen=True, slots=True)
class EndedMessage:
    """What is known of a message that has ended."""

    id: str
    received_at: int
    content_type: str
    headers: Mapping[str, str]
    correlation_id: str | None
    source: str
    project: str | None
    key: str
    died: bool  #: it goes on with the effects that it has had; one that was done is done anew, all of it
    priority: int | None = None
    labels: tuple[str, ...] | None = None


def draft_again(ended: EndedMessage, body: bytes, to: QueueSpec, *, own: bool) -> Draft:
    """What a replay of the message hands in; `own` where it goes to the queue that it was in."""
    headers = {name: value for name, value in ended.headers.items() if name != EFFECTS}
    if ended.died:
        headers[EFFECTS] = effect_root(ended.id, ended.received_at, ended.headers)
    return Draft(
        body,
        content_type=ended.content_type,
        headers=headers,
        key=ended.key if own else "",
        priority=ended.priority if own and may_set_priority(to.ordering) else None,
        project=ended.project,
        labels=ended.labels,
        correlation_id=ended.correlation_id,
        source=ended.source,
        origin=ended.id,
    )


def replay_message(
    to: Queue, definition: QueueDefinition, message: Message, job: str, dead_letter: DeadLetter | None = None
) -> tuple[Receipt, bool]:
    """Enqueue a message that has ended again; the receipt, and whether the filter of `to` left it out.

    Once for each `job` and acceptance of the message, however often it is called and whenever: the new message's id
    comes from both and is never free again. The entry of a message that is done is gone, and with it its priority and
    labels. Raises what `admit` and `enqueue` raise, and BodyLost.
    """
    ended = EndedMessage(
        message.id,
        message.received_at,
        message.content_type,
        message.headers,
        message.correlation_id or None,
        message.source,
        message.project or None,
        message.key if dead_letter is None else dead_letter.key,
        died=dead_letter is not None,
        priority=dead_letter.priority if dead_letter else None,
        labels=dead_letter.labels if dead_letter else None,
    )
    stored = _stored(to, message)
    body = b"" if stored else to.runtime.bodies.read(message)
    own = to.spec.name == message.queue
    admitted = admit(definition, replace(draft_again(ended, body, to.spec, own=own), stored=stored), to.now())
    draft = replace(admitted.draft, idempotency_key=None, once=True)
    key = message_replay_key(message.id, message.received_at, dead_letter.sk if dead_letter else "", job)
    write = record_filtered if admitted.filtered else enqueue
    return write(to, draft, system_key=key), admitted.filtered


def _stored(to: Queue, message: Message) -> StoredBody | None:
    """Its body where it lies, to be copied there: it may be larger than this process."""
    large = message.body.size > MAX_BODY_BYTES and to.runtime.uploads.alone(message.body)
    return stored_again(message) if large else None
