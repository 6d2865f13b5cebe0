"""The loops of a consumer, each written once: fetch, work, keep claims alive, stop.

A loop is a generator that knows neither threads nor an event loop. It yields what it needs (`Wait`, `Call`, `Spawn`)
and is given what came of it. Whoever drives it advances it under one lock, or on one event loop: what happens between
two yields is one step, and nothing else of the consumer happens meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from millrace.client.delivery import DeliveryState
from millrace.client.errors import CallFailed, ClaimLost, RequestRefused
from millrace.client.hooks import Hooks, log_fields, named
from millrace.handlers.batches import BatchSettings
from millrace.handlers.controls import Control, ExecutionTimeout, Reject, Snooze
from millrace.handlers.results import result_bytes
from millrace.model.clock import Chance, Clock

log = logging.getLogger("millrace.client.consumer")
#: A claim is extended this often within its lease, so that one lost heartbeat does not lose it.
BEATS = 3
#: A long poll of a stopping consumer ends within this.
WAIT_MS = 10_000
#: Between fetches that brought nothing and did not wait on the server.
IDLE_S = 1.0
FIRST_RESTART_S, MAX_RESTART_S = 0.5, 30.0
#: A message whose input could not be fetched comes back after this: asked for again at once, it would be all that runs.
INPUT_RETRY_MS = 5_000
BATCH = 100
#: The ordering in which what one fetch brings must run one after another.
FIFO = "fifo"

D = TypeVar("D", bound=DeliveryState)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Wait:
    """Until something of the consumer changes, at most so long."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Something that may block, or be awaited."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Spawn:
    """A loop to be driven beside this one."""

    name: str
    loop: Loop[None]


Loop = Generator[Wait | Call | Spawn, Any, T]


@dataclass(frozen=True, slots=True)
class Subscription:
    queue: str
    handler: Callable[..., Any]
    options: dict[str, Any]
    takes_delivery: bool
    batch: BatchSettings | None = None

    def places(self, messages: int) -> int:
        """How many handlers so many messages keep busy."""
        return messages if self.batch is None else min(1, messages)


class ConsumerLoops(Generic[D]):
    """What a consumer decides, whoever drives it."""

    def __init__(
        self,
        client: Any,
        concurrency: int,
        owner: str | None,
        hooks: Hooks | None,
        grace_s: float,
        chance: Chance,
        clock: Callable[[], float],
        now: Clock,
    ) -> None:
        self.client = client
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}"[:64]
        self._hooks = hooks or Hooks()
        self._grace_s = grace_s
        self._chance = chance
        self._clock = clock  #: seconds
        self._now = now  #: milliseconds, for people and handlers
        self._subscriptions: list[Subscription] = []
        self._stopping = False
        self._draining = False
        self._free = concurrency
        self._asked = 0  #: places whose fetch is under way
        self._wanted: int | None = None  #: messages still to be taken; None for any number
        self._fetchers = 0
        # By the delivery's own identity: its claim's handle changes with every extension.
        self._held: dict[int, D] = {}
        self._beats: dict[int, float] = {}  #: when each claim is due for a heartbeat
        self._deadlines: dict[int, float] = {}  #: when each run has taken too long
        self._ending: set[int] = set()  #: whose ending somebody writes: nobody else may

    def handle(
        self,
        queue: str,
        *,
        lease_ms: int | None = None,
        wait_ms: int = WAIT_MS,
        project: str | None = None,
        labels: tuple[str, ...] = (),
        batch: int | None = None,
        batch_wait_ms: int = 0,
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Give a queue its handler: `(input)` or `(input, context)`, a function or a coroutine function, as a command.

        Returning acks. Retry, Reject and Snooze say what becomes of the message; anything else that is raised nacks.
        With `batch` it takes a `Batch` of up to so many messages, for the rest of which the first waits so long.
        """
        options = {"lease_ms": lease_ms, "wait_ms": wait_ms, "project": project, "labels": labels, "with_input": True}
        return self._register(queue, options, takes_delivery=False, batch=BatchSettings.of(batch, batch_wait_ms))

    def handle_delivery(
        self,
        queue: str,
        *,
        lease_ms: int | None = None,
        wait_ms: int = WAIT_MS,
        project: str | None = None,
        labels: tuple[str, ...] = (),
        with_state: bool = False,
    ) -> Callable[[Callable[[D], T]], Callable[[D], T]]:
        """The same for a handler that is given the delivery itself, with its body, and may ack or nack on its own."""
        options = {"lease_ms": lease_ms, "wait_ms": wait_ms, "project": project, "labels": labels}
        return self._register(queue, {**options, "with_state": with_state}, takes_delivery=True)

    def _register(
        self, queue: str, options: dict[str, Any], *, takes_delivery: bool, batch: BatchSettings | None = None
    ) -> Callable[[F], F]:
        def register(handler: F) -> F:
            given = {**options, "owner": self.owner}
            self._subscriptions.append(Subscription(queue, handler, given, takes_delivery, batch))
            return handler

        return register

    # -- what each side does its own way ------------------------------------------------------------------------
    def _notify(self) -> None:
        """Wake every loop that waits."""
        raise NotImplementedError

    def _run(self, handler: Callable[[D], Any], job: D) -> Any:
        """Call a handler that is given the delivery itself."""
        raise NotImplementedError

    def _run_handler(self, handler: Callable[..., Any], given: Any, job: D) -> Any:
        raise NotImplementedError

    def _abandon(self, _job: D) -> None:
        """The handler of a delivery that is given up: stop it, where that can be."""

    # -- the whole life -----------------------------------------------------------------------------------------
    def _start_loop(self, *, drain: bool, limit: int | None) -> Loop[None]:
        self._draining, self._wanted = drain or limit is not None, limit
        self._fetchers = len(self._subscriptions)
        yield from self._hook(self._hooks.started)
        for subscription in self._subscriptions:
            yield Spawn(f"fetch {subscription.queue}", self._fetch_loop(subscription))
        yield Spawn("heartbeat", self._beat_loop())

    def _end_loop(self) -> Loop[None]:
        """Until it is asked to stop, or nothing more is to be taken and everything taken has ended."""
        while not self._stopping and (self._fetchers or self._held):
            yield Wait(1.0)

    def _stop_loop(self) -> Loop[None]:
        """Take nothing more, let handlers finish within the grace time, give back what is left."""
        self._stopping = True
        self._notify()
        end = self._clock() + self._grace_s
        while self._held and self._clock() < end:
            yield Wait(max(end - self._clock(), 0.001))
        left = [job for job in self._held.values() if self._own_ending(job)]
        self._held.clear()
        self._beats.clear()
        self._deadlines.clear()
        self._notify()
        for job in left:
            job.finished = True  # its handler may still run; what it answers then is stale
            yield from self._lose(job)
            yield from self._give_back(self.client.release, job, job.message.queue, job.message.claim)

    # -- fetching -----------------------------------------------------------------------------------------------
    def _fetch_loop(self, subscription: Subscription) -> Loop[None]:
        """Claim as much as can be worked on; after a failure wait, longer each time, and go on."""
        failures = 0
        try:
            while (room := (yield from self._reserve(subscription))) > 0:
                ask = partial(self.client.dequeue, subscription.queue, max=room, **subscription.options)
                try:
                    jobs = yield Call(ask)
                except (CallFailed, OSError) as error:
                    failures += 1
                    wait_s = self._chance() * min(FIRST_RESTART_S * 2 ** (failures - 1), MAX_RESTART_S)
                    self._settle(subscription, room, [])
                    yield from self._hook(self._hooks.fetch_failed, subscription.queue, error, wait_s)
                    yield from self._pause(wait_s)
                    continue
                failures = 0
                jobs = yield from self._gathered(subscription, jobs, room)
                self._settle(subscription, room, jobs)
                for loop in self._work_on(subscription, jobs):
                    yield Spawn(f"work {subscription.queue}", loop)
                if not jobs and (yield from self._found_nothing(subscription)):
                    return
        finally:
            self._fetchers -= 1
            self._notify()

    def _gathered(self, _subscription: Subscription, jobs: list[D], _room: int) -> Loop[list[D]]:
        """What was fetched, and what else is waited for. The messages are held from now on."""
        yield from ()
        self._hold(jobs)
        return jobs

    def _work_on(self, subscription: Subscription, jobs: list[D]) -> Iterable[Loop[None]]:
        """The loops that work off what was fetched, each in a place of its own."""
        if in_order(jobs):
            return [self._work_in_order(subscription, jobs)]
        return [self._work_loop(subscription, job) for job in jobs]

    def _reserve(self, subscription: Subscription) -> Loop[int]:
        """Wait for a free place and reserve all there are, or one for a batch: for how many messages.

        0 when there is nothing more to take.
        """
        while not self._stopping and not self._room() and not (self._wanted == 0 and not self._asked):
            yield Wait()
        if self._stopping or not (room := self._room()):
            return 0
        if len(self._subscriptions) > 1:
            # Leave places for the other queues while this one waits for messages.
            room = max(1, room // len(self._subscriptions))
        if subscription.batch is not None:
            most = subscription.batch.size
            room = most if self._wanted is None else min(most, self._wanted)
        self._free -= subscription.places(room)
        self._asked += room
        if self._wanted is not None:
            self._wanted -= room
        self._notify()
        return room

    def _room(self) -> int:
        return min(self._free, BATCH, self._free if self._wanted is None else self._wanted)

    def _settle(self, subscription: Subscription, room: int, jobs: list[D]) -> None:
        """Free the places that nothing came for."""
        self._asked -= room
        self._free += subscription.places(room) - subscription.places(len(jobs))
        if self._wanted is not None:
            self._wanted += room - len(jobs)
        self._notify()

    def _hold(self, jobs: list[D]) -> None:
        for job in jobs:
            self._held[id(job)] = job
            self._beats[id(job)] = self._clock() + job.message.lease_ms / 1000 / BEATS
        self._notify()

    def _found_nothing(self, subscription: Subscription) -> Loop[bool]:
        """Whether that is the end: a drain ends once nothing is ready and nothing is held that could come back."""
        if self._draining and not self._held:
            return True
        if self._draining:
            yield Wait(IDLE_S)
        elif subscription.options["wait_ms"] < IDLE_S * 1000:
            yield from self._pause(IDLE_S)
        return False

    def _pause(self, seconds: float) -> Loop[None]:
        end = self._clock() + seconds
        while not self._stopping and self._clock() < end:
            yield Wait(max(end - self._clock(), 0.001))

    # -- working ------------------------------------------------------------------------------------------------
    def _work_in_order(self, subscription: Subscription, jobs: list[D]) -> Loop[None]:
        """One after another: nothing starts before what lies ahead of it is done, or it is given back."""
        blocked = False
        for job in jobs:
            yield from self._work_loop(subscription, job, blocked=blocked)
            blocked = blocked or not job.acked

    def _work_loop(self, subscription: Subscription, job: D, *, blocked: bool = False) -> Loop[None]:
        try:
            yield from self._hook(self._hooks.claimed, job)
            if self._stopping or blocked:
                yield from self._give_back(job.release, job)  # type: ignore[attr-defined]
            elif not job.lost:  # it may have waited for its turn
                yield from self._handle(subscription, job)
        finally:
            self._drop(job)
            self._free += 1
            self._notify()

    def _drop(self, job: D) -> None:
        """A delivery has ended: nothing of it is looked after any more."""
        for kept in (self._held, self._beats, self._deadlines):
            kept.pop(id(job), None)
        self._ending.discard(id(job))

    def _handle(self, subscription: Subscription, job: Any) -> Loop[None]:
        """Run the handler: what returns is acked, what it raises says what becomes of the message."""
        try:
            arguments = yield from self._arguments(subscription, job)
        except CallFailed as error:
            yield from self._postpone(job, error)
            return
        self._deadlines[id(job)] = self._clock() + job.message.execution_timeout_ms / 1000
        self._notify()
        try:
            result = yield Call(self._run if subscription.takes_delivery else self._run_handler, arguments)
        except GeneratorExit:
            raise
        except BaseException as error:
            if self._own_ending(job):
                yield from self._failed(job, error)
            elif not isinstance(error, Exception):
                raise
            return
        if self._own_ending(job):
            yield from self._done(job, result)

    def _arguments(self, subscription: Subscription, job: Any) -> Loop[tuple[Any, ...]]:
        if subscription.takes_delivery:
            return subscription.handler, job
        try:
            return subscription.handler, (yield Call(job.read_input)), job
        except Reject as error:
            return partial(_raise, error), None, job

    def _postpone(self, job: Any, error: CallFailed) -> Loop[None]:
        """Give back what has no input for now. It has not started: no attempt is charged."""
        log.warning("no input: %s: %s", named(job), error, extra={"action": "input_failed", **log_fields(job)})
        yield from self._give_back(job.snooze, job, INPUT_RETRY_MS)

    def _done(self, job: Any, result: Any) -> Loop[bool]:
        """Ack what a handler has done; whether that was taken."""
        try:
            if not job.finished:
                yield Call(job.ack, (result if result_bytes(result) else None,))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 (told and raised again where it is not ours)
            yield from self._failed(job, error)
            return False
        yield from self._hook(self._hooks.done, job)
        return True

    def _failed(self, job: Any, error: BaseException) -> Loop[None]:
        """A handler raised, or what it returned could not be acked."""
        if isinstance(error, ClaimLost):
            yield from self._lose(job)
            return
        yield Call(job.leave, (error,))
        if not isinstance(error, Exception):
            raise error
        if isinstance(error, Control):
            log.info("handler raised %s: %s", type(error).__name__, named(job), extra=_controlled(job))
        else:
            # The type alone: its text may hold anything. It is in the message's history.
            extra = {"action": "handler_failed", "error_type": type(error).__name__, **log_fields(job)}
            log.warning("handler raised %s: %s", type(error).__name__, named(job), extra=extra)
        if not isinstance(error, Snooze):
            yield from self._hook(self._hooks.failed, job, error)

    def _own_ending(self, job: D) -> bool:
        """Whoever gets True here writes the ending of the run; nobody else may then."""
        if id(job) in self._ending or id(job) not in self._held:
            return False
        self._ending.add(id(job))
        self._deadlines.pop(id(job), None)
        return True

    def _prolong(self, job: D, seconds: float) -> None:
        """Let a run take so long from now; called by its handler, in whatever thread that is."""
        deadline = self._deadlines.get(id(job))
        if deadline is not None:
            self._deadlines[id(job)] = max(deadline, self._clock() + seconds)

    def _time_out(self, job: Any) -> Loop[None]:
        """Fail a run past its execution timeout. A thread cannot be killed: it keeps its place until it returns."""
        seconds = job.message.execution_timeout_ms / 1000
        error = ExecutionTimeout(f"The run took longer than {seconds:g} s.")
        log.warning("run timed out: %s", named(job), extra={"action": "run_timed_out", **log_fields(job)})
        yield from self._lose(job)
        yield from self._give_back(job.leave, job, error)
        self._abandon(job)
        yield from self._hook(self._hooks.failed, job, error)

    def _lose(self, job: D) -> Loop[None]:
        job.cancelled.set()
        if not job.lost:
            job.lost = True
            log.info("claim lost or given back: %s", named(job), extra={"action": "claim_lost", **log_fields(job)})
            yield from self._hook(self._hooks.lost, job)

    # -- heartbeat ----------------------------------------------------------------------------------------------
    def _beat_loop(self) -> Loop[None]:
        """Extend each claim well before its lease ends, those that are due together in one call a queue."""
        while not self._stopping or self._held:
            now = self._clock()
            for late in [number for number, at in self._deadlines.items() if at <= now]:
                del self._deadlines[late]
                if (job := self._held.get(late)) is not None and self._own_ending(job):
                    self._beats.pop(late, None)
                    yield Spawn("time out", self._time_out(job))
            due = [self._held[job] for job, at in self._beats.items() if at <= now]
            if not due:
                first = min((*self._beats.values(), *self._deadlines.values()), default=None)
                yield Wait(None if first is None else max(first - now, 0.001))
                continue
            for job in due:
                self._beats[id(job)] = now + job.message.lease_ms / 1000 / BEATS
            for queue in dict.fromkeys(job.message.queue for job in due):
                of_queue = [job for job in due if job.message.queue == queue]
                for start in range(0, len(of_queue), BATCH):
                    yield from self._extend(queue, of_queue[start : start + BATCH])

    def _extend(self, queue: str, jobs: list[D]) -> Loop[None]:
        claims = [(job.message.claim, job.message.lease_ms) for job in jobs]
        try:
            answers = yield Call(self.client.extend_all, (queue, claims))
        except CallFailed as error:
            extra = {"action": "heartbeat_failed", "queue": queue}
            log.warning("heartbeat failed on %s for %s: %s", queue, ", ".join(map(named, jobs)), error, extra=extra)
            return
        for job, answer in zip(jobs, answers, strict=True):
            if not isinstance(answer, RequestRefused):
                job.renew(answer)
            elif not job.finished:
                self._beats.pop(id(job), None)
                yield from self._lose(job)

    def _hook(self, hook: Callable[..., Any], *args: Any) -> Loop[None]:
        try:
            yield Call(hook, args)
        except Exception as error:  # noqa: BLE001 (a hook's fault must not end the loop, and its text may hold anything)
            extra = {"action": "hook_failed", "error_type": type(error).__name__}
            log.error("hook raised %s", type(error).__name__, extra=extra)

    def _give_back(self, call: Callable[..., Any], job: D, *args: Any) -> Loop[None]:
        try:
            yield Call(call, args)
        except CallFailed as error:
            extra = {"action": "release_failed", **log_fields(job)}
            log.info("could not give back %s: %s", named(job), error, extra=extra)


def in_order(jobs: Sequence[Any]) -> bool:
    """Whether deliveries of one fetch must run one after another."""
    return bool(jobs) and jobs[0].message.ordering == FIFO


def _controlled(job: DeliveryState) -> dict[str, Any]:
    return {"action": "run_controlled", **log_fields(job)}


def _raise(error: Exception, _given: Any) -> Any:
    """Stands for a handler whose input cannot be read."""
    raise error
