"""Where a message is, by its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from millrace.engine.queue import Queue
from millrace.model.errors import NotFound
from millrace.model.message import Attempt, Entry, Message, MessageLocation, Place, Records, Result
from millrace.model.values import dataclass
from millrace.stores.interface import Store


class MessageStatus(StrEnum):
    """Where a message is in its life; the API, the console and the command line show these words."""

    READY = "ready"
    SCHEDULED = "scheduled"  #: delayed, or backing off after a failure
    IN_FLIGHT = "in_flight"  #: a worker holds a live claim on it
    DONE = "done"
    DEAD = "dead"
    PURGED = "purged"  #: taken out by an operator
    FILTERED = "filtered"  #: left out by the queue's filter; it never was in the queue

    @property
    def ended(self) -> bool:
        return self in (MessageStatus.DONE, MessageStatus.DEAD, MessageStatus.PURGED, MessageStatus.FILTERED)


#: Stands where the place of an entry would, in the record of a message that has none.
FILTERED_PLACE = "F#"


class Placed(Protocol):
    """What of a message leads to where it is."""

    @property
    def id(self) -> str: ...
    @property
    def nonce(self) -> str: ...
    @property
    def place(self) -> Place: ...
    @property
    def erased(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message with its status, its entry while it has one, and its result or dead letter afterwards."""

    status: MessageStatus
    message: Message
    entry: Entry | None = None
    result: Result | None = None
    dead_letter: str = ""
    history: tuple[Attempt, ...] = ()


def status(queue: Queue, message_id: str) -> MessageView:
    """A message's state now: one query and one read, two more when its entry is gone.

    Raises NotFound for an id that this queue does not know.
    """
    records = queue.store.get_records(message_id)
    message = records.message
    if message is None or (message.tenant, message.queue) != (queue.tenant, queue.spec.name):
        raise NotFound("message", message_id)
    return locate(queue.store, message, records, queue.now())


def locate(store: Store, message: Message, records: Records, now: int) -> MessageView:
    """Follow a message to its entry. An entry that is gone from its latest place has ended.

    A retry may move the entry between the two reads; so a missing entry counts only when, read after it, the
    place is still the same. Moving is one transaction, and a single read never sees half of one.
    """
    if message.place.sk == FILTERED_PLACE:
        return MessageView(MessageStatus.FILTERED, message)
    if message.erased:
        return MessageView(MessageStatus.PURGED, message)
    location = _own(records.location, message)
    while True:
        place = message.place if location is None else location.place
        history = location.history if location else ()
        entry = store.get_entry(place) if place else None
        if entry is not None and entry.nonce == message.nonce:
            return MessageView(_status_of(entry, now), message, entry, history=history)
        again = _own(store.get_location(message.id), message)
        if again == location:
            break
        location = again
    status = _ended(location)
    if status is not MessageStatus.DONE:
        dead_letter = location.dead_letter if location else ""
        return MessageView(status, message, dead_letter=dead_letter, history=history)
    result = records.result
    if result is None or result.nonce != message.nonce:
        result = store.get_records(message.id).result
    own_result = result if result and result.nonce == message.nonce else None
    return MessageView(MessageStatus.DONE, message, result=own_result, history=history)


def statuses(queue: Queue, ids: Sequence[str]) -> dict[str, MessageStatus]:
    """The status of each of these messages that this queue knows: three batch reads for a hundred, one more for those
    that are gone from their place.
    """
    messages = {
        id_: message
        for id_, message in queue.store.get_messages(ids).items()
        if (message.tenant, message.queue) == (queue.tenant, queue.spec.name)
    }
    return statuses_of(queue.store, messages, queue.now())


def statuses_of(store: Store, messages: Mapping[str, Placed], now: int) -> dict[str, MessageStatus]:
    """The same of messages that were read or scanned before: two batch reads for a hundred, one more for those that are
    gone from their place.
    """
    found = {id_: MessageStatus.FILTERED for id_, message in messages.items() if message.place.sk == FILTERED_PLACE}
    found |= {id_: MessageStatus.PURGED for id_, message in messages.items() if message.erased}
    queued = {id_: message for id_, message in messages.items() if id_ not in found}
    for id_, (entry, location) in locate_all(store, queued).items():
        found[id_] = _ended(location) if entry is None else _status_of(entry, now)
    return found


def locate_all(store: Store, messages: Mapping[str, Placed]) -> dict[str, tuple[Entry | None, MessageLocation | None]]:
    """Each message's entry, or None where it has ended, with its location: two batch reads for a hundred messages, one
    more for those that are gone from their place.
    """
    found: dict[str, tuple[Entry | None, MessageLocation | None]] = {}
    unsure = dict(messages)
    seen = store.get_locations(list(unsure))
    while unsure:
        latest = {id_: _own(seen.get(id_), message) for id_, message in unsure.items()}
        places = {id_: at.place if (at := latest[id_]) else message.place for id_, message in unsure.items()}
        entries = store.get_entries([place for place in places.values() if place])
        gone = {}
        for id_, message in unsure.items():
            place = places[id_]
            entry = entries.get(place) if place else None
            if entry is not None and entry.nonce == message.nonce:
                found[id_] = entry, latest[id_]
            else:
                gone[id_] = message
        # As in `locate`: gone counts only when, read after it, the place is still the same.
        seen = store.get_locations(list(gone))
        for id_, message in gone.items():
            if _own(seen.get(id_), message) == latest[id_]:
                found[id_] = None, latest[id_]
        unsure = {id_: message for id_, message in gone.items() if id_ not in found}
    return found


def _ended(location: MessageLocation | None) -> MessageStatus:
    if location and location.dead_letter:
        return MessageStatus.DEAD
    return MessageStatus.PURGED if location and location.purged_at else MessageStatus.DONE


def _own(location: MessageLocation | None, message: Placed) -> MessageLocation | None:
    """A message replaced after its window leaves its predecessor's record behind: that is not ours."""
    return location if location and location.nonce == message.nonce else None


def _status_of(entry: Entry, now: int) -> MessageStatus:
    if entry.live(now):
        return MessageStatus.IN_FLIGHT
    return MessageStatus.SCHEDULED if entry.due > now else MessageStatus.READY
