"""Slots: the places that a queue has for workers, so that all of them together keep to `max_concurrency`.

A queue has ceil(max_concurrency / concurrency of a worker) slots; each stands for its share of the concurrency. A slot
has a short lease of its own, whatever the lease of the queue's messages: a killed worker leaves its place free after
SLOT_LEASE_MS. So never more than `max_concurrency` runs are started through workers that hold a slot; only a worker
that lost it (frozen, cut off) may still be in runs, and it ends. One query to look, one write to take a slot, one
every third of its lease, one to free it; a worker for which there is no place costs the query. Consumers of the HTTP
API are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import random_token
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import Slot

#: How long a slot is held without a sign of life.
SLOT_LEASE_MS = 15_000


def slot_count(queue: Queue, per_worker: int) -> int:
    """How many workers the queue may have; one where order lets only one work."""
    if queue.spec.ordering is Ordering.FIFO:
        return 1
    return -(-queue.spec.max_concurrency // per_worker)


@dataclass(slots=True)
class SlotLease:
    """A slot that this worker holds."""

    queue: Queue
    slot: Slot
    concurrency: int

    def renew(self) -> bool:
        """Hold the slot for another lease; False when another worker has it now."""
        now = self.queue.now()
        longer = replace(self.slot, until=now + SLOT_LEASE_MS)
        try:
            renewed = self.queue.store.take_slot(self.queue.tenant, self.queue.spec.name, longer, now)
        except StoreUnavailable:
            return self.slot.until > now
        if renewed:
            self.slot = longer
        return renewed

    def free(self) -> None:
        self.queue.store.free_slot(self.queue.tenant, self.queue.spec.name, self.slot)


def has_free_slot(queue: Queue, per_worker: int) -> bool:
    """Whether a worker more would find a place: one query."""
    return len(_held(queue)) < slot_count(queue, per_worker)


def take_slot(queue: Queue, per_worker: int, first: int = 0) -> SlotLease | None:
    """A free slot, looked for from `first` onwards and around; None when every one is held."""
    count = slot_count(queue, per_worker)
    token = random_token(queue.runtime.entropy)
    held = _held(queue)
    for number in ((first + offset) % count for offset in range(count)):
        if number in held:
            continue
        now = queue.now()
        slot = Slot(number, token, now + SLOT_LEASE_MS)
        if queue.store.take_slot(queue.tenant, queue.spec.name, slot, now):
            share = min(per_worker, queue.spec.max_concurrency - number * per_worker)
            return SlotLease(queue, slot, share)
    return None


def _held(queue: Queue) -> set[int]:
    now = queue.now()
    return {slot.number for slot in queue.store.list_slots(queue.tenant, queue.spec.name) if slot.until > now}
