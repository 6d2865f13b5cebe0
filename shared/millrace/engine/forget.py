"""Forget a message, wherever it is in its life: queued, held, done, dead, filtered or half erased."""

from __future__ import annotations

from millrace.engine.counters import book_endings
from millrace.engine.dead_letters import delete_dead_letter
from millrace.engine.erase import erase_ended, erase_entry
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, MessageView, status
from millrace.history.log import HistoryEvent
from millrace.model.errors import MessageHeld

#: Looks at a message that moves on while it is being erased.
TRIES = 5


def forget_message(queue: Queue, message_id: str) -> MessageStatus:
    """Erase a message; how it stood before. One that a worker holds too: whatever its run answers changes nothing.

    Repeated after a crash it finishes what is left. Raises NotFound for an id that this queue does not know,
    MessageHeld where it changes hands faster than it can be taken, StoreUnavailable where nobody can tell.
    """
    for _ in range(TRIES):
        found = status(queue, message_id)
        if _forgotten(queue, found):
            return found.status
    raise MessageHeld(message_id)


def _forgotten(queue: Queue, found: MessageView) -> bool:
    message = found.message
    if found.entry is not None:
        return _take_out(queue, found)
    records = queue.store.get_records(message.id)
    if not erase_ended(queue, message, records, done=found.status is MessageStatus.DONE):
        return False
    if records.location and records.location.dead_letter:
        dead_letter = queue.store.get_dead_letter(queue.tenant, queue.spec.name, records.location.dead_letter)
        if dead_letter is not None:
            delete_dead_letter(queue, dead_letter)
    return True


def _take_out(queue: Queue, found: MessageView) -> bool:
    """Out of its queue, by the claim as it was read."""
    entry, epoch = found.entry, queue.state().epoch
    records = queue.store.get_records(found.message.id)
    if entry is None or not erase_entry(queue, entry, records, queue.now(), held=True):
        return False
    queue.record(HistoryEvent.PURGED, [entry])
    book_endings(queue, epoch, 1)
    return True
