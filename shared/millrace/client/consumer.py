"""A runner for handlers: fetches, keeps claims alive, acks what returns, nacks what raises, stops gracefully.

    consumer = Consumer(client, concurrency=4)

    @consumer.handle("Jobs")
    def work(given: dict, context: Context) -> object:
        return {"made": given["n"]}             # acked with this as its result

    consumer.run()                              # until stop(), Ctrl-C or SIGTERM

One thread fetches for each queue, `concurrency` threads work, and one extends all claims.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from millrace.client.batch_loops import BatchLoops, traced
from millrace.client.clients import Client
from millrace.client.context import PullContext
from millrace.client.delivery import Delivery
from millrace.client.hooks import Hooks, log_fields
from millrace.client.loops import Call, Loop, Spawn, Wait
from millrace.handlers.batches import Outcome, call_batch
from millrace.handlers.calling import HandlerFunction, call
from millrace.handlers.tracing import run_span
from millrace.model.clock import Chance, Clock, system_chance, system_clock

T = TypeVar("T")


class Consumer(BatchLoops[Delivery]):
    """Runs handlers on the messages of their queues, in threads."""

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
        now: Clock = system_clock,
    ) -> None:
        super().__init__(client, concurrency, owner, hooks, grace_s, chance, clock, now)
        self._changed = condition()
        self._threads: list[threading.Thread] = []

    def run(self, *, drain: bool = False, limit: int | None = None) -> None:
        """Work until stopped; on the main thread Ctrl-C and SIGTERM stop it gracefully.

        With `drain` until nothing is ready, with `limit` until so many messages were taken or nothing is ready.
        """
        caught = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        before = {number: signal.signal(number, lambda *_: self.ask_to_stop()) for number in caught}
        try:
            self.start(drain=drain, limit=limit)
            self._drive(self._end_loop())
            self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self, *, drain: bool = False, limit: int | None = None) -> None:
        """Begin to work in threads of its own."""
        self._drive(self._start_loop(drain=drain, limit=limit))

    def ask_to_stop(self) -> None:
        """Fetch nothing more. Safe to be called from a signal handler: it takes no lock."""
        self._stopping = True

    def stop(self) -> None:
        """Fetch nothing more, let handlers finish within the grace time, give back what is left."""
        self._drive(self._stop_loop())
        for thread in self._threads:
            thread.join()
        self._drive(self._hook(self._hooks.stopped))

    def _drive(self, loop: Loop[T]) -> T:
        """Advance a loop to its end, each step under the lock, what may block outside it."""
        advance: Callable[[], Any] = partial(next, loop)
        while True:
            with self._changed:
                try:
                    effect = advance()
                except StopIteration as end:
                    value: T = end.value
                    return value
                if isinstance(effect, Wait):
                    self._changed.wait(effect.seconds)
                    advance = partial(next, loop)
                    continue
            try:
                found = self._perform(effect)
            except BaseException as error:  # noqa: BLE001 (the loop decides)
                advance = partial(loop.throw, error)
            else:
                advance = partial(loop.send, found)

    def _perform(self, effect: Call | Spawn) -> Any:
        if isinstance(effect, Call):
            return effect.function(*effect.args)
        thread = threading.Thread(target=self._drive, args=(effect.loop,), name=effect.name, daemon=True)
        if not effect.name.startswith(("work ", "time out")):
            self._threads.append(thread)  # a handler may never return: nobody waits for it
        thread.start()
        return None

    def _notify(self) -> None:
        self._changed.notify_all()

    def _run(self, handler: Callable[[Delivery], Any], job: Delivery) -> Any:
        with run_span(job.message.queue, job.message.headers, log_fields(job)):
            result = handler(job)
            return asyncio.run(result) if inspect.iscoroutine(result) else result

    def _run_handler(self, handler: HandlerFunction, given: Any, job: Delivery) -> Any:
        context = self._context(given, job)
        with run_span(job.message.queue, job.message.headers, log_fields(job)):
            return call(handler, given, context)

    def _run_batch(self, handler: HandlerFunction, given: Sequence[tuple[Any, Delivery]]) -> list[Outcome]:
        outcomes = call_batch(handler, [(found, self._context(found, job)) for found, job in given])
        return traced(given, outcomes)

    def _context(self, given: Any, job: Delivery) -> PullContext:
        return PullContext(job, given, lambda found: found, self._now, partial(self._prolong, job))

    def _prolong(self, job: Delivery, seconds: float) -> None:
        with self._changed:
            super()._prolong(job, seconds)
            self._notify()
