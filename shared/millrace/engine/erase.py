"""Erase: what a sender sent goes for good, wherever its message is in its life.

One transaction puts what remains in the place of what was there; a body outside the table is deleted after it, and
named by the husk until it is gone, so that a repeat after a crash finishes it. What remains, until its `ttl`, holds
nothing of the sender's:

    husk      id, nonce, times, bulk run: a repeat within its window, and a commit that comes late, are refused
    trace     when it was taken out, and where its dead letter was: what an old claim still sends is refused
    seal      the version of the claim that ended it: its ack may be repeated; a result that comes late is refused
"""

from __future__ import annotations

from dataclasses import replace

from millrace.engine.queue import Queue
from millrace.model.keys import partition
from millrace.model.message import SEALED, Body, Entry, Message, MessageLocation, Records, Result
from millrace.stores.interface import Applied, Erasure, Unknown


def erase_entry(queue: Queue, entry: Entry, records: Records, now: int, *, held: bool = False) -> bool:
    """Take a message out of its queue, where its entry is as it was read, and erase it; False where it is not.

    One that somebody holds only where `held`: the claim is stale then. An entry whose message is not committed is left
    alone: its sender was not answered yet. Six write units for a message of 1 KB, two for each KB more. Raises
    StoreUnavailable where nobody can tell.
    """
    message = records.message
    if message is None or message.nonce != entry.nonce or message.erased:
        return False
    erasure = Erasure(
        message.husk(partition(queue.tenant, queue.spec.name, 0)),
        _trace(queue, message, now),
        entry=entry,
        idle_at=0 if held else now,
        result=records.result is not None,
        workflow_state=held or records.workflow_state is not None,
    )
    if not _applied(queue, erasure):
        return False
    erase_body(queue, erasure.husk)
    return True


def erase_ended(queue: Queue, message: Message, records: Records, *, done: bool) -> bool:
    """Erase a message that is in its queue no more; False where another message has its id.

    Then what the other did not write over goes all the same. Raises StoreUnavailable where nobody can tell.
    """
    current = records.message
    if current is None or current.nonce != message.nonce:
        queue.store.drop_records(message.id, message.nonce)
        queue.runtime.bodies.erase(message.body)
        return False
    if not current.erased:
        husk = current.husk(partition(queue.tenant, queue.spec.name, 0))
        seal = _seal(queue, current, records.result) if done else None
        trace = _trace(queue, current, queue.now())
        if records.location and records.location.nonce == current.nonce:
            trace = replace(trace, dead_letter=records.location.dead_letter)
        if not _applied(queue, Erasure(husk, trace, seal)):
            return False
        current = husk
    erase_body(queue, current)
    return True


def erase_body(queue: Queue, husk: Message) -> bool:
    """Delete the body that an erased message still names, and then its name; False where it names none."""
    if not husk.body.blob:
        return False
    queue.runtime.bodies.erase(husk.body)
    bare = replace(husk, body=Body())
    _applied(queue, Erasure(bare, result=False, workflow_state=False))
    return True


def finish_erasing(queue: Queue, message_id: str) -> None:
    """Finish what a crash left: nothing where the message is not erased, or nothing is left of it."""
    message = queue.store.get_records(message_id).message
    if message is not None and message.erased:
        erase_body(queue, message)


def _applied(queue: Queue, erasure: Erasure) -> bool:
    outcome = queue.store.erase_message(erasure)
    if isinstance(outcome, Unknown):
        raise outcome.cause
    return isinstance(outcome, Applied)


def _trace(queue: Queue, message: Message, now: int) -> MessageLocation:
    return MessageLocation(message.id, message.nonce, None, queue.spec.location_ttl(now), purged_at=now)


def _seal(queue: Queue, message: Message, result: Result | None) -> Result | None:
    """None where no result is kept, and none can come."""
    own = result if result and result.nonce == message.nonce else None
    if own is None and not queue.spec.idempotency.cache_result:
        return None
    version = own.version if own else 0
    return Result(message.id, message.nonce, version, SEALED, b"", queue.spec.message_ttl(queue.now()))
