"""Clear: what was claimed but may not run leaves the queue, as a dead letter or, without a message, for good."""

from __future__ import annotations

from millrace.engine.bury import bury
from millrace.engine.finish import release
from millrace.engine.queue import Queue
from millrace.model.ids import random_token
from millrace.model.keys import END, READY, WITHDRAWN, group_of
from millrace.model.message import Attempt, Body, DeadLetterReason, Entry, Message, Place
from millrace.stores.interface import Applied

#: Reads, and entries in each, of a look for what grew too old.
AGED_STEPS, AGED_PAGE = 32, 25


def lost_run(before: Entry, now: int) -> Attempt | None:
    """The run that a claim which ran out stands for; None where none was lost."""
    if not before.lost(now):
        return None
    return Attempt(
        before.attempts + 1,
        before.version,
        before.owner,
        before.since,
        before.until,
        "WorkerLost",
        "The claim ran out: its worker neither finished nor gave the message back.",
    )


def remove_orphan(queue: Queue, entry: Entry) -> bool:
    """Nobody can still be about to commit it: take it out. Looked at twice, since it cannot be undone.

    Its credit is not given back: an entry that was written late has none, since the sweep found it lost before. The
    depth may stand too high until the sweep repairs it, never too low.
    """
    message = queue.store.get_records(entry.id).message
    if message is not None and message.nonce == entry.nonce:
        release(queue, [entry])
        return False
    if message is None:
        # Its sender may only be asleep: what it still commits must not be accepted without an entry.
        gone = queue.store.withdraw_entry(entry, _marker(queue, entry))
    else:
        gone = queue.store.end_entries([entry])[0]
    return isinstance(gone, Applied)


def _marker(queue: Queue, entry: Entry) -> Message:
    """Takes the place of a message that was never committed. The next sender of its key replaces it."""
    now = queue.now()
    return Message(
        id=entry.id,
        tenant=queue.tenant,
        queue=queue.spec.name,
        nonce=random_token(queue.runtime.entropy),
        place=Place(entry.place.pk, WITHDRAWN),
        body=Body(),
        content_type="",
        received_at=now,
        dedupe_until=0,
        ttl=queue.spec.message_ttl(now),
    )


def bury_doomed(queue: Queue, entry: Entry, message: Message, lost: Attempt | None, now: int) -> bool:
    """Make a dead letter of a claimed message that is too old or has used up its attempts; False on a stale claim."""
    if entry.expires_at <= now:
        reason, error = (
            DeadLetterReason.EXPIRED,
            f"Older than the queue keeps: {queue.spec.retention.max_age_seconds} s.",
        )
    else:
        reason, error = DeadLetterReason.EXHAUSTED, lost.error if lost else "Its attempts are used up."
    error_type = lost.error_type if lost and reason is DeadLetterReason.EXHAUSTED else reason.title()
    return bury(queue, entry, message, reason, error_type=error_type, error=error, attempts=[lost] if lost else [])


def aged(queue: Queue, pk: str, now: int) -> list[Entry]:
    """Entries too old to be kept, wherever they lie: the oldest of each priority and key is its first.

    An ordered queue is left out: its oldest is its head, which every poll looks at.
    """
    found: list[Entry] = []
    if queue.spec.ordering.ordered:
        return found
    cursor = READY
    for _ in range(AGED_STEPS):
        page = queue.store.read_lane(pk, cursor, READY + END, AGED_PAGE)
        old = [entry for entry in page.items if entry.expires_at <= now and not entry.live(now)]
        found += old
        if page.next is None:
            break
        cursor = page.next if len(old) == len(page.items) else group_of(page.items[-1].place) + END
    return found
