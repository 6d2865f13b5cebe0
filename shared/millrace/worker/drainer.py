"""The station: everything that one process needs to work off any queue of its definitions.

`drain` takes a slot, drains the queue with its targets, frees the slot, and looks once more: a message that came while
every slot was taken found no worker to wake, so the last one to leave must look after it gave up its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from millrace.definitions import Definitions, QueueDefinition, TargetKind
from millrace.engine.poll import poll
from millrace.engine.queue import Queue, Runtime
from millrace.worker.breaker import Breakers
from millrace.worker.middleware import Middleware
from millrace.worker.observe import Emit
from millrace.worker.slots import HeldSlot, slot_count, take_slot
from millrace.worker.targets import Deliver, TargetPlan, target_name
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DEFAULTS, Drained, Worker, WorkerSettings

#: A worker more for every so many unfinished messages per place of its concurrency.
DEPTH_PER_PLACE = 5
#: A slot lost means that another worker has this one's place: finish quickly.
LOST_SLOT_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """A worker is wanted for a queue."""

    tenant: str
    queue: str
    slot: int = 0  #: where to look for a free slot first
    fanned: bool = False  #: called by another worker: it calls no more


InvokeWorker = Callable[[WakeRequest], None]


@dataclass(slots=True)
class QueueDrainer:
    """Drains queues of one deployment. Made once a process; safe to share between threads."""

    runtime: Runtime
    definitions: Definitions
    deliveries: Mapping[TargetKind, Deliver]
    settings: WorkerSettings = DEFAULTS
    middleware: tuple[Middleware, ...] = ()
    invoke_worker: InvokeWorker | None = None  #: calls another worker; None where there is nobody to call
    emit: tuple[Emit, ...] = ()
    _breakers: dict[tuple[str, str], Breakers] = field(default_factory=dict)
    _queues: dict[tuple[str, str], Queue] = field(default_factory=dict)

    def queue(self, tenant: str, name: str) -> Queue:
        """A tenant's queue. Raises UnknownQueue."""
        if (tenant, name) not in self._queues:
            self._queues[tenant, name] = self.runtime.queue(tenant, self.definitions.queue(name).spec)
        return self._queues[tenant, name]

    def works_on(self, name: str) -> bool:
        """Whether the queue is worked off here: it is defined, and has a target."""
        return name in self.definitions.queues and bool(self.definitions.queue(name).targets)

    def drain(self, wake_request: WakeRequest, time_left: TimeLeft) -> Drained | None:
        """Work off a queue until nothing is due; None when it has as many workers as it may have."""
        definition = self.definitions.queue(wake_request.queue)
        queue = self.queue(wake_request.tenant, wake_request.queue)
        drained: Drained | None = None
        while True:
            held = take_slot(queue, self.settings.concurrency, wake_request.slot)
            if held is None:
                return drained
            try:
                self._fan_out(queue, wake_request)
                latest = self._work(queue, definition, held, time_left)
            finally:
                held.free()
            for emit in self.emit:
                emit(queue, latest)
            drained = latest
            if latest.reason != "idle" or not latest.counts["started"] or not self._more(queue, time_left):
                return drained

    def _work(self, queue: Queue, definition: QueueDefinition, held: HeldSlot, time_left: TimeLeft) -> Drained:
        breakers = self._breakers_of(queue, definition)
        worker = Worker(
            queue,
            TargetPlan(definition, self.deliveries, breakers),
            settings=replace(self.settings, concurrency=held.concurrency),
            middleware=self.middleware,
            time_left=time_left,
            gate=breakers,
            keep_slot=held.keep,
        )
        held.on_lost = lambda: worker.stop(LOST_SLOT_GRACE_S, "slot lost")
        return worker.run()

    def _breakers_of(self, queue: Queue, definition: QueueDefinition) -> Breakers:
        key = (queue.tenant, queue.spec.name)
        if key not in self._breakers:
            self._breakers[key] = Breakers(queue, map(target_name, definition.targets))
        return self._breakers[key]

    def _more(self, queue: Queue, time_left: TimeLeft) -> bool:
        """The last look, after the slot was freed: is something due that nobody was woken for?"""
        left = time_left.left_ms()
        short = time_left.stopped or (left is not None and left <= self.settings.stop_claiming_ms)
        state = queue.state()
        if short or state.paused_at or state.breakers:
            return False
        return any(poll(queue, pk, 1, queue.now()).entries for pk in queue.partitions())

    def _fan_out(self, queue: Queue, wake_request: WakeRequest) -> None:
        """Call more workers when the depth asks for it, as many as the queue has slots for."""
        if self.invoke_worker is None or wake_request.fanned:
            return
        state = queue.state(fresh=True)
        places = slot_count(queue, self.settings.concurrency)
        wanted = min(places, -(-state.depth // (DEPTH_PER_PLACE * self.settings.concurrency)))
        if state.paused_at or state.breakers:
            return
        for slot in range(1, wanted):
            self.invoke_worker(WakeRequest(wake_request.tenant, wake_request.queue, slot, fanned=True))
