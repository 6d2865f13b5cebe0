"""Where a message is, by its id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.errors import NotFound
from millrace.message import Attempt, Entry, Message, Records, Result, Whereabouts
from millrace.queue import Queue
from millrace.store import Store


class Phase(StrEnum):
    """What a person calls a message's state."""

    READY = "ready"
    WAITING = "waiting"  #: delayed, or backing off after a failure
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    PURGED = "purged"  #: taken out by an operator
    FILTERED = "filtered"  #: left out by the queue's filter; it never was in the queue

    @property
    def ended(self) -> bool:
        return self in (Phase.DONE, Phase.DEAD, Phase.PURGED, Phase.FILTERED)


#: Stands where the place of an entry would, in the record of a message that has none.
FILTERED_PLACE = "F#"


@dataclass(frozen=True, slots=True)
class Status:
    """A message's phase, and what there is to see of it."""

    phase: Phase
    message: Message
    entry: Entry | None = None
    result: Result | None = None
    dead_letter: str = ""
    history: tuple[Attempt, ...] = ()


def status(queue: Queue, message_id: str) -> Status:
    """A message's state now: one query and one read, two more when its entry is gone.

    Raises NotFound for an id that this queue does not know.
    """
    records = queue.store.get_records(message_id)
    message = records.message
    if message is None or (message.tenant, message.queue) != (queue.tenant, queue.spec.name):
        raise NotFound("message", message_id)
    return locate(queue.store, message, records, queue.now())


def locate(store: Store, message: Message, records: Records, now: int) -> Status:
    """Follow a message to its entry. An entry that is gone from its latest place has ended.

    A retry may move the entry between the two reads; so a missing entry counts only when, read after it, the
    place is still the same. Moving is one transaction, and a single read never sees half of one.
    """
    if message.place.sk == FILTERED_PLACE:
        return Status(Phase.FILTERED, message)
    whereabouts = _own(records.whereabouts, message)
    while True:
        place = message.place if whereabouts is None else whereabouts.place
        history = whereabouts.history if whereabouts else ()
        entry = store.get_entry(place) if place else None
        if entry is not None and entry.nonce == message.nonce:
            return Status(_phase(entry, now), message, entry, history=history)
        again = _own(store.get_whereabouts(message.id), message)
        if again == whereabouts:
            break
        whereabouts = again
    if whereabouts and whereabouts.dead_letter:
        return Status(Phase.DEAD, message, dead_letter=whereabouts.dead_letter, history=history)
    if whereabouts and whereabouts.purged_at:
        return Status(Phase.PURGED, message, history=history)
    result = records.result
    if result is None or result.nonce != message.nonce:
        result = store.get_records(message.id).result
    own_result = result if result and result.nonce == message.nonce else None
    return Status(Phase.DONE, message, result=own_result, history=history)


def _own(whereabouts: Whereabouts | None, message: Message) -> Whereabouts | None:
    """A message replaced after its window leaves its predecessor's record behind: that is not ours."""
    return whereabouts if whereabouts and whereabouts.nonce == message.nonce else None


def _phase(entry: Entry, now: int) -> Phase:
    if entry.live(now):
        return Phase.CLAIMED
    return Phase.WAITING if entry.due > now else Phase.READY
