"""The same runner with asyncio: tasks of one event loop instead of threads.

    consumer = AsyncConsumer(client, concurrency=100)

    @consumer.handle("Jobs")
    async def work(given: dict, context: AsyncContext) -> object:
        return {"made": given["n"]}             # acked with this as its result

    await consumer.run()                        # until stop(), Ctrl-C or SIGTERM

A handler that is a plain function runs in a thread of the consumer's own, so that it does not hold up heartbeats; its
context's calls block that thread alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from millrace.client.batch_loops import BatchLoops, traced
from millrace.client.clients import AsyncClient
from millrace.client.context import PullContext
from millrace.client.delivery import AsyncDelivery
from millrace.client.hooks import Hooks, log_fields
from millrace.client.loops import Loop, Spawn, Wait
from millrace.handlers.batches import Outcome, call_batch, call_batch_async
from millrace.handlers.calling import HandlerFunction, call, call_async, is_async
from millrace.handlers.controls import ExecutionTimeout
from millrace.handlers.tracing import run_span
from millrace.model.clock import Chance, Clock, system_chance, system_clock

T = TypeVar("T")


class AsyncConsumer(BatchLoops[AsyncDelivery]):
    """Runs handlers on the messages of their queues, as tasks of the running event loop."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        concurrency: int = 4,
        owner: str | None = None,
        hooks: Hooks | None = None,
        grace_s: float = 30.0,
        chance: Chance = system_chance,
        clock: Callable[[], float] = time.monotonic,
        now: Clock = system_clock,
    ) -> None:
        super().__init__(client, concurrency, owner, hooks, grace_s, chance, clock, now)
        self._changed = asyncio.Event()
        self._loops: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._handlers: dict[int, asyncio.Task[Any]] = {}
        self._abandoned: set[int] = set()
        self._mates: dict[int, list[AsyncDelivery]] = {}  #: whose handler is called with which others
        #: Not the event loop's own: long handlers there would keep short calls waiting.
        self._pool = ThreadPoolExecutor(concurrency, "millrace-handler")

    async def run(self, *, drain: bool = False, limit: int | None = None) -> None:
        """Work until stopped; on the main thread Ctrl-C and SIGTERM stop it gracefully.

        With `drain` until nothing is ready, with `limit` until so many messages were taken or nothing is ready.
        """
        loop = asyncio.get_running_loop()
        caught = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in caught:
            loop.add_signal_handler(number, self.ask_to_stop)
        try:
            await self.start(drain=drain, limit=limit)
            await self._drive(self._end_loop())
        finally:
            await self.stop()
            for number in caught:
                loop.remove_signal_handler(number)

    async def start(self, *, drain: bool = False, limit: int | None = None) -> None:
        """Begin to work in tasks of its own."""
        await self._drive(self._start_loop(drain=drain, limit=limit))

    def ask_to_stop(self) -> None:
        """Fetch nothing more."""
        self._stopping = True
        self._notify()

    async def stop(self) -> None:
        """Fetch nothing more, let handlers finish within the grace time, give back what is left and cancel it."""
        await self._drive(self._stop_loop())
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._loops, *self._working, return_exceptions=True)
        self._pool.shutdown(wait=False)
        await self._drive(self._hook(self._hooks.stopped))

    async def _drive(self, loop: Loop[T]) -> T:
        """Advance a loop to its end; nothing else runs during a step."""
        advance: Callable[[], Any] = partial(next, loop)
        while True:
            try:
                effect = advance()
            except StopIteration as end:
                value: T = end.value
                return value
            try:
                found = await self._perform(effect)
            except BaseException as error:  # noqa: BLE001 (the loop decides)
                advance = partial(loop.throw, error)
            else:
                advance = partial(loop.send, found)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Wait):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(effect.seconds):
                    await self._changed.wait()
            return None
        if isinstance(effect, Spawn):
            tasks = self._working if effect.name.startswith(("work ", "time out")) else self._loops
            task = asyncio.create_task(self._drive(effect.loop), name=effect.name)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return None
        found = effect.function(*effect.args)
        return await found if inspect.isawaitable(found) else found

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self, handler: Callable[[AsyncDelivery], Any], job: AsyncDelivery) -> Any:
        with run_span(job.message.queue, job.message.headers, log_fields(job)):
            if is_async(handler):
                return await self._stoppable(job, handler(job))
            found = await self._in_thread(handler, job)
            return await found if inspect.isawaitable(found) else found

    async def _run_handler(self, handler: HandlerFunction, given: Any, job: AsyncDelivery) -> Any:
        context = self._context(given, job)
        with run_span(job.message.queue, job.message.headers, log_fields(job)):
            if is_async(handler):
                return await self._stoppable(job, call_async(handler, given, context))
            return await self._in_thread(call, handler, given, context)

    async def _run_batch(self, handler: HandlerFunction, given: Sequence[tuple[Any, AsyncDelivery]]) -> list[Outcome]:
        items = [(found, self._context(found, job)) for found, job in given]
        jobs = [job for _, job in given]
        if not is_async(handler):
            return traced(given, await self._in_thread(call_batch, handler, items))
        self._mates.update((id(job), jobs) for job in jobs)
        try:
            return traced(given, await self._stoppable(jobs[0], call_batch_async(handler, items)))
        finally:
            for job in jobs:
                self._mates.pop(id(job), None)

    def _context(self, given: Any, job: AsyncDelivery) -> PullContext:
        loop = asyncio.get_running_loop()

        def wait_for(found: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(found, loop).result()

        def prolong(seconds: float) -> None:
            loop.call_soon_threadsafe(self._prolong, job, seconds)

        return PullContext(job, given, wait_for, self._now, prolong)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        run = partial(contextvars.copy_context().run, function, *args)
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)

    async def _stoppable(self, job: AsyncDelivery, running: Coroutine[Any, Any, Any]) -> Any:
        """Await a handler in a task of its own, which can be cancelled without its work loop."""
        task = self._handlers[id(job)] = asyncio.create_task(running)
        try:
            return await task
        except asyncio.CancelledError:
            if id(job) in self._abandoned:
                raise ExecutionTimeout from None
            raise
        finally:
            del self._handlers[id(job)]
            self._abandoned.discard(id(job))

    def _abandon(self, job: AsyncDelivery) -> None:
        """Cancel its handler; that of a batch once none of its deliveries counts any more."""
        jobs = self._mates.get(id(job), [job])
        if any(id(other) in self._held and id(other) not in self._ending for other in jobs):
            return
        if (task := self._handlers.get(id(jobs[0]))) is not None:
            self._abandoned.add(id(jobs[0]))
            task.cancel()
