"""The drainer: everything that one process needs to drain any queue of its definitions.

`drain` takes a slot, drains the queue with its targets, frees the slot, and polls once more: a message that came while
every slot was taken found no worker to wake, so the last one to leave must poll after it gave up its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millrace.aws.functions import EventNotSent
from millrace.definitions import Definitions, QueueDefinition, TargetKind
from millrace.engine.poll import poll
from millrace.engine.queue import Queue, Runtime
from millrace.model.errors import StoreUnavailable
from millrace.worker.body_budget import DEFAULT_MEMORY, BodyBudget
from millrace.worker.breaker import Breakers
from millrace.worker.context import log
from millrace.worker.middleware import Middleware
from millrace.worker.runners import Together
from millrace.worker.slots import SlotLease, has_free_slot, slot_count, take_slot
from millrace.worker.targets import Deliver, TargetPlan, target_name
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DEFAULTS, DrainResult, Worker, WorkerSettings

#: A worker more for every so many unfinished messages per place of its concurrency.
DEPTH_PER_PLACE = 5


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """A worker is wanted for a queue."""

    tenant: str
    queue: str
    slot: int = 0  #: the slot to try first
    fanned: bool = False  #: invoked by another worker: it invokes no more


#: Starts a worker elsewhere without waiting for it. Raises EventNotSent.
InvokeWorker = Callable[[WakeRequest], None]
#: Reports a drain that is over.
Emit = Callable[[Queue, DrainResult], None]


@dataclass(slots=True)
class QueueDrainer:
    """Drains queues of one deployment. Made once a process; safe to share between threads."""

    runtime: Runtime
    definitions: Definitions
    deliveries: Mapping[TargetKind, Deliver]
    settings: WorkerSettings = DEFAULTS
    middleware: tuple[Middleware, ...] = ()
    default_tenant: str = "default"  #: whose queues schedules feed that name no tenant
    invoke_worker: InvokeWorker | None = None  #: starts another worker; None where there is no other
    emit: tuple[Emit, ...] = ()
    budget: BodyBudget = field(default_factory=lambda: BodyBudget.of_memory(DEFAULT_MEMORY))
    _breakers: dict[tuple[str, str], Breakers] = field(default_factory=dict)
    _queues: dict[tuple[str, str], Queue] = field(default_factory=dict)

    def queue(self, tenant: str, name: str) -> Queue:
        """A tenant's queue. Raises UnknownQueue."""
        if (tenant, name) not in self._queues:
            self._queues[tenant, name] = self.runtime.queue(tenant, self.definitions.queue(name).spec)
        return self._queues[tenant, name]

    def works_on(self, name: str) -> bool:
        """Whether workers drain the queue: it is defined, and has a target."""
        return name in self.definitions.queues and bool(self.definitions.queue(name).targets)

    def drain(self, wake_request: WakeRequest, time_left: TimeLeft) -> DrainResult | None:
        """Drain a queue until nothing is due; None when it has as many workers as it may have."""
        definition = self.definitions.queue(wake_request.queue)
        queue = self.queue(wake_request.tenant, wake_request.queue)
        result: DrainResult | None = None
        fruitless = 0  # drains in a row that started nothing: what is due may be an entry not committed yet
        while True:
            slot = take_slot(queue, self.settings.concurrency, wake_request.slot)
            if slot is None:
                return result
            try:
                self._fan_out(queue, wake_request)
                with time_left.share() as own:
                    result = self._work(queue, definition, slot, own)
            finally:
                slot.free()
            for emit in self.emit:
                emit(queue, result)
            fruitless = 0 if result.counts["started"] else fruitless + 1
            if result.reason != "idle" or fruitless > 1 or not self._more(queue, time_left):
                return result

    def ensure_worker(self, wake_request: WakeRequest) -> bool:
        """Start a worker for a queue unless its slots are all held; False where the caller has to drain it.

        With all of them held none is needed: whoever frees a slot polls once more.
        """
        if self.invoke_worker is None:
            return False
        try:
            if not has_free_slot(self.queue(wake_request.tenant, wake_request.queue), self.settings.concurrency):
                return True
        except StoreUnavailable:
            pass  # the worker finds out
        return self.start_worker(wake_request)

    def start_worker(self, wake_request: WakeRequest) -> bool:
        """Start a worker for a queue elsewhere; False where that cannot be, so that the caller drains the queue."""
        if self.invoke_worker is None:
            return False
        try:
            self.invoke_worker(wake_request)
        except EventNotSent as error:
            fields = {
                "action": "invoke_failed",
                "queue": wake_request.queue,
                "tenant": wake_request.tenant,
                "error": str(error),
            }
            log.warning("A worker could not be started.", extra=fields)
            return False
        return True

    def _work(self, queue: Queue, definition: QueueDefinition, slot: SlotLease, time_left: TimeLeft) -> DrainResult:
        breakers = self._breakers_of(queue, definition)
        plan = TargetPlan(definition, self.deliveries, breakers)
        worker = Worker(
            queue,
            plan,
            together=Together(plan.batch, plan.deliver_batch) if plan.batch else None,
            settings=self.settings,
            middleware=self.middleware,
            time_left=time_left,
            breakers=breakers,
            slot=slot,
            budget=self.budget,
        )
        return worker.run()

    def _breakers_of(self, queue: Queue, definition: QueueDefinition) -> Breakers:
        key = (queue.tenant, queue.spec.name)
        if key not in self._breakers:
            self._breakers[key] = Breakers(queue, map(target_name, definition.targets))
        return self._breakers[key]

    def _more(self, queue: Queue, time_left: TimeLeft) -> bool:
        """The last poll, after the slot was freed: is something due that no worker was woken for?"""
        left = time_left.left_ms()
        short = time_left.stopped or (left is not None and left <= self.settings.stop_claiming_ms)
        state = queue.state()
        if short or state.paused_at or state.breakers:
            return False
        return any(poll(queue, pk, 1, queue.now()).entries for pk in queue.partitions())

    def _fan_out(self, queue: Queue, wake_request: WakeRequest) -> None:
        """Invoke more workers when the depth asks for it, as many as the queue has slots for."""
        if self.invoke_worker is None or wake_request.fanned:
            return
        state = queue.state(fresh=True)
        places = slot_count(queue, self.settings.concurrency)
        wanted = min(places, -(-state.depth // (DEPTH_PER_PLACE * self.settings.concurrency)))
        if state.paused_at or state.breakers:
            return
        for slot in range(1, wanted):
            self.start_worker(WakeRequest(wake_request.tenant, wake_request.queue, slot, fanned=True))
