"""Slots: the places that a queue has for workers, so that all of them together keep to `max_concurrency`.

A queue has ceil(max_concurrency / concurrency of a worker) slots, leased for a lease and renewed by the heartbeat; each
slot stands for its share of the concurrency. So never more than `max_concurrency` runs hold live claims through
workers; only a worker that lost its lease (frozen, cut off) may still be in one, and that run is fenced off. One
write to take a slot, one a heartbeat, one to free it. Consumers of the HTTP API are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import random_token
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import Slot


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
        longer = replace(self.slot, until=now + self.queue.spec.lease_ms)
        try:
            renewed = self.queue.store.take_slot(self.queue.tenant, self.queue.spec.name, longer, now)
        except StoreUnavailable:
            return self.slot.until > now
        if renewed:
            self.slot = longer
        return renewed

    def free(self) -> None:
        self.queue.store.free_slot(self.queue.tenant, self.queue.spec.name, self.slot)


def take_slot(queue: Queue, per_worker: int, first: int = 0) -> SlotLease | None:
    """A free slot, looked for from `first` onwards and around; None when every one is held."""
    count = slot_count(queue, per_worker)
    token = random_token(queue.runtime.entropy)
    for offset in range(count):
        number = (first + offset) % count
        now = queue.now()
        slot = Slot(number, token, now + queue.spec.lease_ms)
        if queue.store.take_slot(queue.tenant, queue.spec.name, slot, now):
            share = min(per_worker, queue.spec.max_concurrency - number * per_worker)
            return SlotLease(queue, slot, share)
    return None
