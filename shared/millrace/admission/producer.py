"""A producer's message against its queue's definition: type, filter and keys.

A queue with targets takes what its type describes, since a worker will render a mapping from it. A queue without
targets is worked off by consumers of its own: it takes any JSON or bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.admission.typed_message import typed_draft
from millrace.definitions import QueueDefinition
from millrace.model.message import Draft


@dataclass(frozen=True, slots=True)
class Shaped:
    """A draft with the keys that its definition gives it."""

    draft: Draft
    wanted: bool = True  #: false where the queue's filter leaves it out


def shaped(definition: QueueDefinition, draft: Draft, now: int, request_key: str | None) -> Shaped:
    """Check a draft and fill in its keys. Raises InvalidMessage with the path of every problem.

    The message's own idempotency key counts first, then the definition's, then the request's: a client that merely
    repeats a request must not hide that two requests carry the same message.
    """
    if not definition.targets:
        return Shaped(replace(draft, idempotency_key=draft.idempotency_key or request_key))
    typed = typed_draft(definition.message_type, draft, now)
    own = draft.idempotency_key or definition.idempotency_key_of(typed)
    keyed = replace(draft, idempotency_key=own or request_key, key=draft.key or definition.key_of(typed) or "")
    return Shaped(keyed, definition.accepts(typed))
