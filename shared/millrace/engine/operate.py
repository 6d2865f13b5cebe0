"""What an operator does to a queue: pause, resume, break a claim, reset a breaker, purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from millrace.engine.counters import book_endings
from millrace.engine.erase import erase_body, erase_entry
from millrace.engine.finish import failure_of
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.history.log import HistoryEvent
from millrace.model.errors import MessageHeld, NotFound, StaleClaim
from millrace.model.keys import END, READY, WAITING
from millrace.model.message import Entry, MessageLocation, Records
from millrace.model.queue_state import QueueState

PURGE_PAGE = 25
#: Tries to close a breaker that workers change at the same time.
RESET_TRIES = 4
#: Looks at a message whose claim changes while it is cancelled.
CANCEL_TRIES = 3


def ignore(_ids: list[str]) -> None:
    """Nobody needs to know."""


def pause(queue: Queue, by: str) -> QueueState:
    """Stop handing out messages. They are still accepted, and still become dead letters when they grow too old."""
    return _paused(queue, queue.now(), by)


def resume(queue: Queue, by: str) -> QueueState:
    """Hand out messages again."""
    return _paused(queue, 0, by)


def _paused(queue: Queue, at: int, by: str) -> QueueState:
    state = queue.store.set_paused(queue.tenant, queue.spec.name, at, by)
    queue.cache_state(state)
    return state


def break_claim(queue: Queue, message_id: str) -> None:
    """Take a message from whoever holds it and give it back, charging no attempt. The holder's claim is stale then.

    Its location names the broken claim, so that an ack with it is refused even once the message is done. Four write
    units. Raises NotFound where nobody holds it.
    """
    found = status(queue, message_id)
    if found.status is not MessageStatus.IN_FLIGHT or (entry := found.entry) is None:
        raise NotFound("claim on message", message_id)
    known = queue.store.get_location(entry.id)
    if known is None or known.nonce != entry.nonce:
        known = MessageLocation(entry.id, entry.nonce, entry.place, queue.spec.location_ttl(entry.enqueued_at))
    location = replace(known, place=entry.place, broken=entry.version)
    error = failure_of(entry, queue.store.move_entry(entry, entry.unclaimed(), location))
    if isinstance(error, StaleClaim):
        raise NotFound("claim on message", message_id)
    if error:
        raise error
    queue.record(HistoryEvent.RELEASED, [entry])


def reset_breaker(queue: Queue, target: str | None = None) -> tuple[str, ...]:
    """Close a target's circuit breaker, or all of the queue's: what was closed. Workers call the target again at once.

    Raises NotFound where the target's breaker is not open.
    """
    found = queue.state(fresh=True).breakers
    if target is not None and target not in found:
        raise NotFound("open breaker of target", target[:200])
    closed = tuple(sorted(found)) if target is None else (target,)
    for name in closed:
        for _ in range(RESET_TRIES):
            seen = queue.state(fresh=True)
            if name not in seen.breakers or queue.store.set_breaker(seen, name, None):
                break
    queue.state(fresh=True)
    return closed


def cancel_message(queue: Queue, message_id: str, *, running: bool = False) -> None:
    """Take one message out of its queue for good, and erase it. Its status says `purged`.

    One that a worker holds only where it is to be cancelled while `running`: its holder's claim is stale then, so the
    next heartbeat sets `context.cancelled`, and whatever the run still answers changes nothing. Costs what a purge
    costs. Repeated after a crash it finishes what is left. Raises MessageHeld where a worker has it, NotFound where it
    is not queued.
    """
    for _ in range(CANCEL_TRIES):
        found = status(queue, message_id)
        if found.entry is None:
            if found.message.erased and erase_body(queue, found.message):
                return
            raise NotFound("queued message", message_id)
        now = queue.now()
        if found.entry.live(now) and not running:
            raise MessageHeld(message_id)
        if _remove(queue, [(found.entry, queue.store.get_records(message_id))], now, held=running):
            return
    raise MessageHeld(message_id)


@dataclass(frozen=True, slots=True)
class Purged:
    """How far a purge came in one call."""

    removed: int
    held: int  #: left alone, since somebody is working on them, or their sender was not answered yet
    next: str | None  #: where to go on


def purge_page(queue: Queue, position: str | None = None, *, before: Callable[[list[str]], None] = ignore) -> Purged:
    """Remove and erase one page of the queue's messages, those that nobody holds; call again with `next`.

    Each keeps a trace: its status says `purged`. `before` is told the ids of those whose body lies outside the table,
    so that whoever goes on after a crash can finish them (`finish_erasing`). A read, and six write units for a message
    of 1 KB, two for each KB more.
    """
    stretches = [(pk, lane) for pk in queue.partitions() for lane in (READY, WAITING)]
    number, _, after = (position or "0:").partition(":")
    at = int(number)
    pk, lane = stretches[at]
    page = queue.store.read_lane(pk, max(after, lane), lane + END, PURGE_PAGE)
    now = queue.now()
    free = [(entry, queue.store.get_records(entry.id)) for entry in page.items if not entry.live(now)]
    before([entry.id for entry, records in free if records.message and records.message.body.blob])
    removed = _remove(queue, free, now)
    following = f"{at}:{page.next}" if page.next else f"{at + 1}:" if at + 1 < len(stretches) else None
    return Purged(removed, len(page.items) - removed, following)


def _remove(queue: Queue, found: list[tuple[Entry, Records]], now: int, *, held: bool = False) -> int:
    """Take each out, as it was read, and count it."""
    epoch = queue.state().epoch
    removed = [entry for entry, records in found if erase_entry(queue, entry, records, now, held=held)]
    if removed:
        queue.record(HistoryEvent.PURGED, removed)
        book_endings(queue, epoch, len(removed))
    return len(removed)
