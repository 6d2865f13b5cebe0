"""A runner for handlers: fetches, keeps claims alive, acks what returns, nacks what raises, stops gracefully.

    consumer = Consumer(client, concurrency=4)

    @consumer.handle("Jobs")
    def work(job: Delivery) -> object:
        return {"made": job.json()["n"]}        # acked with this as its result

    consumer.run()                              # until stop(), Ctrl-C or SIGTERM

One thread fetches for each queue, `concurrency` threads work, and one extends all claims.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from millrace.client.clients import Client
from millrace.client.delivery import Delivery
from millrace.client.errors import CallFailed, ClaimLost
from millrace.client.model import ExtendedClaim
from millrace.model.clock import Chance, system_chance

log = logging.getLogger(__name__)
ConsumerHandler = Callable[[Delivery], Any]
#: A claim is extended this often within its lease, so that one lost heartbeat does not lose it.
BEATS = 3
#: A long poll of a stopping consumer ends within this.
WAIT_MS = 10_000
#: Between fetches that brought nothing and did not wait on the server.
IDLE_S = 1.0
FIRST_RESTART_S, MAX_RESTART_S = 0.5, 30.0
BATCH = 100
#: A message and the version of its claim: these stay when its handle is renewed.
ClaimIdentity = tuple[str, int]


def _identity(job: Delivery) -> ClaimIdentity:
    return job.message.message_id, job.message.version


def _spawn(name: str, target: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called along a consumer's life. What a hook raises is logged and changes nothing."""

    started: Callable[[], None] = _nothing
    claimed: Callable[[Delivery], None] = _nothing
    done: Callable[[Delivery], None] = _nothing
    failed: Callable[[Delivery, BaseException], None] = _nothing
    lost: Callable[[Delivery], None] = _nothing  #: another worker has the message now
    fetch_failed: Callable[[str, BaseException, float], None] = _nothing  #: queue, why, seconds until the next try
    stopped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class _Subscription:
    queue: str
    handler: ConsumerHandler
    options: dict[str, Any]


@dataclass(slots=True)
class _Shared:
    """What the threads of a consumer share, under one condition."""

    changed: threading.Condition
    stopping: bool = False
    free: int = 0
    held: dict[ClaimIdentity, Delivery] = field(default_factory=dict)
    beats: dict[ClaimIdentity, float] = field(default_factory=dict)  #: when each claim is due for a heartbeat


class Consumer:
    """Runs handlers on the messages of their queues."""

    def __init__(
        self,
        client: Client,
        *,
        concurrency: int = 4,
        owner: str | None = None,
        hooks: Hooks | None = None,
        grace_s: float = 30.0,
        chance: Chance = system_chance,
        condition: Callable[[], threading.Condition] = threading.Condition,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}"[:64]
        self._hooks = hooks or Hooks()
        self._grace_s = grace_s
        self._chance = chance
        self._clock = clock  #: seconds
        self._shared = _Shared(condition(), free=concurrency)
        self._subscriptions: list[_Subscription] = []
        self._threads: list[threading.Thread] = []

    def handle(
        self,
        queue: str,
        *,
        lease_ms: int | None = None,
        wait_ms: int = WAIT_MS,
        project: str | None = None,
        labels: tuple[str, ...] = (),
        with_state: bool = False,
    ) -> Callable[[ConsumerHandler], ConsumerHandler]:
        """Give a queue its handler: a function, or a coroutine function. Returning acks, raising nacks."""
        options = {
            "lease_ms": lease_ms,
            "wait_ms": wait_ms,
            "project": project,
            "labels": labels,
            "with_state": with_state,
            "owner": self.owner,
        }

        def register(handler: ConsumerHandler) -> ConsumerHandler:
            self._subscriptions.append(_Subscription(queue, handler, options))
            return handler

        return register

    def run(self) -> None:
        """Work until stopped; on the main thread Ctrl-C and SIGTERM stop it gracefully."""
        self.start()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.ask_to_stop())
        shared = self._shared
        while not shared.stopping:
            with shared.changed:
                shared.changed.wait(1.0)
        self.stop()

    def start(self) -> None:
        """Begin to work in threads of its own."""
        self._hook(self._hooks.started)
        for subscription in self._subscriptions:
            self._threads.append(_spawn(f"fetch {subscription.queue}", self._fetch, subscription))
        self._threads.append(_spawn("heartbeat", self._beat))

    def ask_to_stop(self) -> None:
        """Fetch nothing more. Safe to be called from a signal handler: it takes no lock."""
        self._shared.stopping = True

    def stop(self) -> None:
        """Fetch nothing more, let handlers finish within the grace time, give back what is left."""
        shared = self._shared
        self.ask_to_stop()
        end = self._clock() + self._grace_s
        with shared.changed:
            shared.changed.notify_all()
            while shared.held and self._clock() < end:
                shared.changed.wait(max(end - self._clock(), 0.001))
            left = list(shared.held.values())
            shared.held.clear()
            shared.beats.clear()
            shared.changed.notify_all()
        for job in left:
            job.finished = True  # its handler may still run; what it answers then is stale
            self._quietly(self.client.release, job.message.queue, job.message.claim)
        for thread in self._threads:
            thread.join()
        self._hook(self._hooks.stopped)

    # -- fetching -----------------------------------------------------------------------------------------------
    def _fetch(self, subscription: _Subscription) -> None:
        """Claim as much as can be worked on; after a failure wait, longer each time, and go on."""
        failures = 0
        while (room := self._room()) > 0:
            try:
                jobs = self.client.dequeue(subscription.queue, max=min(room, BATCH), **subscription.options)
                failures = 0
            except (CallFailed, OSError) as error:
                jobs, failures = [], failures + 1
                wait_s = self._chance() * min(FIRST_RESTART_S * 2 ** (failures - 1), MAX_RESTART_S)
                self._hook(self._hooks.fetch_failed, subscription.queue, error, wait_s)
                self._return(room)
                self._sleep(wait_s)
                continue
            self._return(room - len(jobs))
            for job in jobs:
                self._take(job)
                _spawn(f"work {subscription.queue}", self._work, subscription.handler, job)
            if not jobs and subscription.options["wait_ms"] < IDLE_S * 1000:
                self._sleep(IDLE_S)

    def _room(self) -> int:
        """Wait for a free place and reserve all there are; 0 when stopping."""
        shared = self._shared
        with shared.changed:
            while not shared.stopping and not shared.free:
                shared.changed.wait()
            if shared.stopping:
                return 0
            room, shared.free = shared.free, 0
            if len(self._subscriptions) > 1:
                # Leave places for the other queues while this one waits for messages.
                kept = max(1, room // len(self._subscriptions))
                room, shared.free = kept, room - kept
                shared.changed.notify_all()
            return room

    def _return(self, places: int) -> None:
        with self._shared.changed:
            self._shared.free += places
            self._shared.changed.notify_all()

    def _sleep(self, seconds: float) -> None:
        end = self._clock() + seconds
        with self._shared.changed:
            while not self._shared.stopping and self._clock() < end:
                self._shared.changed.wait(max(end - self._clock(), 0.001))

    # -- working ------------------------------------------------------------------------------------------------
    def _take(self, job: Delivery) -> None:
        with self._shared.changed:
            self._shared.held[_identity(job)] = job
            self._shared.beats[_identity(job)] = self._clock() + job.message.lease_ms / 1000 / BEATS
            self._shared.changed.notify_all()

    def _work(self, handler: ConsumerHandler, job: Delivery) -> None:
        try:
            self._hook(self._hooks.claimed, job)
            if self._shared.stopping:
                self._quietly(job.release)
                return
            self._handle(handler, job)
        finally:
            with self._shared.changed:
                self._shared.held.pop(_identity(job), None)
                self._shared.beats.pop(_identity(job), None)
                self._shared.free += 1
                self._shared.changed.notify_all()

    def _handle(self, handler: ConsumerHandler, job: Delivery) -> None:
        try:
            with job:
                result = handler(job)
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)
                if not job.finished:
                    job.ack(result)
        except ClaimLost:
            self._lost(job)
        except Exception as error:
            # Whatever a handler raises is the message's failure, not the consumer's: it was nacked on the way out.
            log.warning(
                "handler failed",
                exc_info=error,
                extra={
                    "action": "handler_failed",
                    "queue": job.message.queue,
                    "message_id": job.message.message_id,
                    "attempt": job.message.attempt,
                    "correlation_id": job.message.correlation_id,
                },
            )
            self._hook(self._hooks.failed, job, error)
        else:
            self._hook(self._hooks.done, job)

    def _lost(self, job: Delivery) -> None:
        if not job.lost:
            job.lost = True
            self._hook(self._hooks.lost, job)

    # -- heartbeat ----------------------------------------------------------------------------------------------
    def _beat(self) -> None:
        """Extend each claim well before its lease ends, those that are due together in one call a queue."""
        shared = self._shared
        while True:
            with shared.changed:
                if shared.stopping and not shared.held:
                    return
                now = self._clock()
                due = [shared.held[claim] for claim, at in shared.beats.items() if at <= now]
                if not due:
                    first = min(shared.beats.values(), default=None)
                    shared.changed.wait(None if first is None else max(first - now, 0.001))
                    continue
                for job in due:
                    shared.beats[_identity(job)] = now + job.message.lease_ms / 1000 / BEATS
            for queue in {job.message.queue for job in due}:
                self._extend(queue, [job for job in due if job.message.queue == queue][:BATCH])

    def _extend(self, queue: str, jobs: list[Delivery]) -> None:
        try:
            answers = self.client.extend_all(queue, [(job.message.claim, job.message.lease_ms) for job in jobs])
        except CallFailed as error:
            log.warning("heartbeat failed: %s", error, extra={"action": "heartbeat_failed", "queue": queue})
            return
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, ExtendedClaim):
                job.renew(answer)
            elif not job.finished:
                with self._shared.changed:
                    self._shared.beats.pop(_identity(job), None)
                self._lost(job)

    def _hook(self, hook: Callable[..., None], *args: Any) -> None:
        try:
            hook(*args)
        except Exception:
            log.exception("hook failed", extra={"action": "hook_failed"})

    def _quietly(self, call: Callable[..., object], *args: Any) -> None:
        try:
            call(*args)
        except CallFailed as error:
            log.info("could not give back: %s", error, extra={"action": "release_failed"})
