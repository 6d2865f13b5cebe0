"""A consumer's loop for batches: one call of its handler for several deliveries, each ended by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from millrace.client.errors import CallFailed
from millrace.client.hooks import log_fields
from millrace.client.loops import Call, ConsumerLoops, D, Loop, Subscription, in_order
from millrace.handlers.batches import BatchSettings, Outcome
from millrace.handlers.controls import Reject
from millrace.handlers.tracing import run_span


class BatchLoops(ConsumerLoops[D]):
    """What a consumer decides about batches, whoever drives it."""

    # -- what each side does its own way ------------------------------------------------------------------------
    def _run_batch(self, handler: Any, given: Sequence[tuple[Any, D]]) -> Any:
        """Call a handler with inputs and their deliveries: what became of each."""
        raise NotImplementedError

    # -- fetching -----------------------------------------------------------------------------------------------
    def _gathered(self, subscription: Subscription, jobs: list[D], room: int) -> Loop[list[D]]:
        """For a batch: wait for more until it is full or its time is over. A fifo queue hands out nothing more now."""
        found: list[D] = yield from super()._gathered(subscription, jobs, room)
        batch = subscription.batch
        if batch is None or not found or in_order(found):
            return found
        end = self._clock() + batch.wait_ms / 1000
        while len(found) < room and not self._stopping and (left := end - self._clock()) > 0:
            options = {**subscription.options, "wait_ms": max(1, int(left * 1000))}
            try:
                more = yield Call(partial(self.client.dequeue, subscription.queue, max=room - len(found), **options))
            except (CallFailed, OSError):
                break  # what is held is worked on; the next fetch finds out
            found += yield from super()._gathered(subscription, more, room)
            if not more:
                break
        return found

    def _work_on(self, subscription: Subscription, jobs: list[D]) -> Iterable[Loop[None]]:
        if subscription.batch is None:
            return super()._work_on(subscription, jobs)
        return [self._batch_loop(subscription, jobs)] if jobs else []

    # -- working ------------------------------------------------------------------------------------------------
    def _batch_loop(self, subscription: Subscription, jobs: list[D]) -> Loop[None]:
        """Those that may share a call together, the others one after another, all in one place."""
        try:
            for job in jobs:
                yield from self._hook(self._hooks.claimed, job)
            blocked = False
            for together in _calls(jobs):
                if blocked or self._stopping:
                    yield from self._release(together)
                else:
                    done = yield from self._handle_together(subscription, together)
                    blocked = not done and in_order(jobs)
        finally:
            for job in jobs:
                self._drop(job)
            self._free += 1
            self._notify()

    def _release(self, jobs: Sequence[Any]) -> Loop[None]:
        for job in jobs:
            if self._own_ending(job):
                yield from self._give_back(job.release, job)
            self._drop(job)

    def _handle_together(self, subscription: Subscription, jobs: list[Any]) -> Loop[bool]:
        """One call for those whose input can be had; whether all of them are done."""
        given: list[tuple[Any, Any]] = []
        for position, job in enumerate(jobs):
            ready = yield from self._read(job, given)
            if not ready and in_order(jobs):
                yield from self._release(jobs[position + 1 :])
                break
        if not given:
            return False
        outcomes = yield from self._outcomes(subscription, given)
        done = len(given) == len(jobs)
        in_turn = True
        for (_, job), outcome in zip(given, outcomes, strict=True):
            if not in_turn and in_order(jobs):
                yield from self._release([job])
                continue
            in_turn = yield from self._end(job, outcome)
            done = done and in_turn
        return done

    def _read(self, job: Any, given: list[tuple[Any, Any]]) -> Loop[bool]:
        """Add a delivery with its input; False where there is none to be had, and it has ended."""
        try:
            found = yield Call(job.read_input)
        except Reject as error:
            yield from self._end(job, Outcome(error=error))
            return False
        except CallFailed as error:
            if self._own_ending(job):
                yield from self._postpone(job, error)
            self._drop(job)
            return False
        if job.lost:
            self._drop(job)
            return False
        self._deadlines[id(job)] = self._clock() + job.message.execution_timeout_ms / 1000
        self._notify()
        given.append((found, job))
        return True

    def _outcomes(self, subscription: Subscription, given: list[tuple[Any, Any]]) -> Loop[list[Outcome]]:
        try:
            found: list[Outcome] = yield Call(self._run_batch, (subscription.handler, given))
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 (what stopped the whole call has failed each of its messages)
            return [Outcome(error=error)] * len(given)
        except BaseException as error:
            for _, job in given:
                if self._own_ending(job):
                    yield Call(job.leave, (error,))
            raise
        return found

    def _end(self, job: Any, outcome: Outcome) -> Loop[bool]:
        """Ack or nack one delivery; whether it is done for sure."""
        try:
            if not self._own_ending(job):
                return False
            if outcome.error is None:
                return (yield from self._done(job, outcome.result))
            yield from self._failed(job, outcome.error)
            return False
        finally:
            self._drop(job)


def traced(given: Sequence[tuple[Any, Any]], outcomes: list[Outcome]) -> list[Outcome]:
    """A span for each delivery, with what became of it."""
    for (_, job), outcome in zip(given, outcomes, strict=True):
        with suppress(Exception), run_span(job.message.queue, job.message.headers, log_fields(job)):
            outcome.give()
    return outcomes


def _calls(jobs: Sequence[D]) -> list[list[D]]:
    """Which deliveries share a call: those on their first of several attempts. In a fifo queue only neighbours do."""
    calls: list[list[D]] = []
    together: list[D] | None = None
    for job in jobs:
        if BatchSettings.alone(job.message.attempt, job.message.max_attempts):
            calls.append([job])
            together = None if in_order(jobs) else together
        elif together is None:
            together = [job]
            calls.append(together)
        else:
            together.append(job)
    return calls
