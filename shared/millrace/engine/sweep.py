"""Sweep: the safety net that runs every minute, also over paused queues.

It turns what grew too old into dead letters, removes orphans, and repairs a depth that stands too high because a
process died with credits in hand. It reads little: each lane sorts by age within a priority and key.
"""

from __future__ import annotations

from dataclasses import dataclass

from millrace.engine.claim import clear_doomed
from millrace.engine.counters import flush
from millrace.engine.queue import Queue
from millrace.model.clock import DAY
from millrace.model.keys import END, READY, WAITING
from millrace.model.queue_state import QueueState

#: A queue fuller than this is worth counting in full; below it a depth that stands too high does no harm.
CROWDED = 0.8
#: A crowded queue is counted by one sweep in so many.
COUNT_CHANCE = 1 / 5
COUNT_PAGE = 1_000
#: A queue that holds nothing leaves the sweep's list after so long. Credits of that time cannot be spent any more.
IDLE_MS = DAY


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    buried: int
    repaired: int  #: credits found lost and returned to the queue


def sweep(queue: Queue, owner: str = "sweep") -> Swept:
    """One pass over a queue."""
    buried = clear_doomed(queue, owner)
    flush(queue)
    return Swept(buried, repair_depth(queue))


def repair_depth(queue: Queue) -> int:
    """Lower the depth to what is there, where that is worth knowing: in an empty queue, or a crowded one.

    The new depth is what was counted plus every credit that may still be spent. Endings booked meanwhile are taken
    off the surplus, and endings not yet booked no longer count after it: see `book_endings`.
    """
    before = queue.state(fresh=True)
    now = queue.now()
    if before.depth <= before.spendable_grants(now) or not _worth_counting(queue, before):
        return 0
    counted = sum(_count(queue, pk, lane) for pk in queue.partitions() for lane in (READY, WAITING))
    after = queue.state(fresh=True)
    booked = after.returned - before.returned
    surplus = before.depth - counted - before.spendable_grants(now) - booked
    if surplus <= 0 or after.epoch != before.epoch:
        return 0
    return surplus if queue.store.repair_depth(after, surplus, now) else 0


def _worth_counting(queue: Queue, state: QueueState) -> bool:
    crowded = state.depth >= CROWDED * queue.spec.retention.max_depth
    if crowded and queue.runtime.chance() < COUNT_CHANCE:
        return True
    return is_empty(queue)


def is_empty(queue: Queue) -> bool:
    """Whether nothing is in the queue, whatever its counter says: one small read for each lane of each partition."""
    return all(
        not queue.store.read_lane(pk, lane, lane + END, 1).items
        for pk in queue.partitions()
        for lane in (READY, WAITING)
    )


def retire(queue: Queue, seen: QueueState) -> bool:
    """Take a queue off the sweep's list that nobody has used for a day and that holds nothing, whether it did.

    `seen` was read before the queue was found empty: credits taken since keep it on the list, and whoever takes some
    later lists it again before it spends them.
    """
    idle = seen.moved_at < queue.now() - IDLE_MS
    if not idle or seen.depth or seen.dead_letters(queue.now(), queue.spec.retention.dead_letter_seconds):
        return False
    return queue.store.unregister(seen)


def _count(queue: Queue, pk: str, lane: str) -> int:
    """Entries of a lane. The ready lane is counted first: what moves meanwhile goes to the waiting lane, and later
    in it, so it is counted twice at worst, never missed."""
    total, after = 0, lane
    while True:
        page = queue.store.read_lane(pk, after, lane + END, COUNT_PAGE)
        total += len(page.items)
        if page.next is None:
            return total
        after = page.next
