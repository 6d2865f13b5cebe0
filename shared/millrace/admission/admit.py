"""The one rule for what comes in: webhooks, API posts, chained messages and Spark rows all pass here.

                      an expression of the definition yields it      the sender names it outright
    ordering key      never costs a message: too long or odd → its   checked, and refused with what is allowed
                      hash, missing → the group `(none)`
    idempotency key   the same; missing → the fallback               wins over the expression; checked

The fallback is what the entry itself knows: a provider's delivery id, the request's `Idempotency-Key`, a chain's own
key, the hash of a row's content. A declared type is always enforced; a queue without one takes any bytes. What the
filter leaves out is recorded as `filtered` and never queued; a filter that fails lets the message in.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import Any

from millrace.admission.typed_message import ParseBody, typed_draft
from millrace.definitions import QueueDefinition
from millrace.definitions.model import NO_KEY
from millrace.engine.drafts import IDEMPOTENCY_KEY_BYTES, KEY_BYTES
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Queue
from millrace.model.errors import BodyTooLarge
from millrace.model.message import Draft

log = logging.getLogger("millrace.admission")


@dataclass(frozen=True, slots=True)
class Admitted:
    """A draft that fits its queue's definition, with the keys that the definition gives it."""

    draft: Draft
    filtered: bool = False  #: the queue's filter leaves it out: recorded, never queued
    key_missing: bool = False  #: the key's expression has no value: it is in the group `(none)`


def admit(
    definition: QueueDefinition,
    draft: Draft,
    now: int,
    *,
    fallback_key: str | None = None,
    document: ParseBody | None = None,
) -> Admitted:
    """Hold a draft against its queue's definition. Pure: nothing is written.

    Raises BodyTooLarge, or InvalidMessage with the path of every problem. Keys that the sender named are left as
    they are: the engine checks them with everything else that a sender may name. `document` spares a second parse.
    """
    limit = definition.spec.max_body_bytes
    if len(draft.body) > limit:
        raise BodyTooLarge(len(draft.body), limit)
    if definition.message_type is None:
        return Admitted(replace(draft, idempotency_key=draft.idempotency_key or fallback_key))
    typed = typed_draft(definition.message_type, draft, now, document)
    key, missing = _ordering_key(definition, draft, typed)
    keyed = replace(draft, key=key, idempotency_key=_idempotency_key(definition, draft, typed) or fallback_key)
    return Admitted(keyed, filtered=not definition.accepts(typed), key_missing=missing)


def accept(
    queue: Queue,
    definition: QueueDefinition,
    draft: Draft,
    *,
    fallback_key: str | None = None,
    system_key: str = "",
    document: ParseBody | None = None,
) -> Receipt:
    """Admit a draft and hand it to its queue; a filtered one is recorded instead.

    `system_key` is a fallback that the queue itself made, out of reach of any sender. Raises what `admit` and
    `enqueue` raise.
    """
    admitted = admit(definition, draft, queue.now(), fallback_key=fallback_key, document=document)
    if admitted.key_missing:
        count_missing_keys(queue.spec.name, 1)
    own = "" if admitted.draft.idempotency_key else system_key
    write = record_filtered if admitted.filtered else enqueue
    return write(queue, admitted.draft, system_key=own)


def count_missing_keys(queue: str, messages: int) -> None:
    """Say that messages went into the group `(none)`: a sum over `messages` is how many."""
    extra = {"action": "key_missing", "queue": queue, "messages": messages}
    log.warning("A key has no value; its messages share the group %s.", NO_KEY, extra=extra)


def fit_key(key: str, limit: int) -> str:
    """A key as the queue takes it: what is too long or has odd characters is named by its hash.

    Refusing it would lose a message for a value that its sender has every right to send.
    """
    data = key.encode("utf-8", "surrogatepass")
    if len(data) <= limit and key.isprintable():
        return key
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _ordering_key(definition: QueueDefinition, draft: Draft, typed: dict[str, Any]) -> tuple[str, bool]:
    if draft.key or definition.key is None:
        return draft.key, False
    found = definition.key_of(typed)
    return (NO_KEY, True) if found is None else (fit_key(found, KEY_BYTES), False)


def _idempotency_key(definition: QueueDefinition, draft: Draft, typed: dict[str, Any]) -> str | None:
    if draft.idempotency_key:
        return draft.idempotency_key
    found = definition.idempotency_key_of(typed)
    return None if found is None else fit_key(found, IDEMPOTENCY_KEY_BYTES)
