"""Runners and the committer: the threads that call the handler, and the one that acks what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from typing import Any

from millrace.engine.finish import extend
from millrace.engine.queue import Queue
from millrace.handlers.batches import BatchSettings, Outcome
from millrace.handlers.results import result_bytes
from millrace.history.log import HistoryEvent
from millrace.model.errors import MillraceError, StaleClaim
from millrace.worker.context import RunContext
from millrace.worker.counts import RunCounter
from millrace.worker.endings import Endings
from millrace.worker.middleware import Handler, Middleware, wrap
from millrace.worker.pipeline import Pipeline
from millrace.worker.rate_limiter import RateLimiter
from millrace.worker.run import Run

#: A run starts only if its claim lives at least a fifth of the lease longer, up to this: clocks differ.
MAX_MARGIN_MS = 2_000


@dataclass(frozen=True, slots=True)
class Together:
    """A handler that takes several messages at once, and tells what became of each."""

    settings: BatchSettings
    handler: Callable[[Sequence[RunContext]], list[Outcome]]


class Runners:
    """At most `pipeline.concurrency` threads that run, started as they are needed, and one that commits."""

    def __init__(
        self,
        queue: Queue,
        pipeline: Pipeline,
        endings: Endings,
        counter: RunCounter,
        handler: Handler,
        rate_limiter: RateLimiter | None,
        linger_s: float,
        together: Together | None = None,
        middleware: tuple[Middleware, ...] = (),
    ) -> None:
        self._queue = queue
        self._pipeline = pipeline
        self._endings = endings
        self._counter = counter
        self._handler = handler
        self._rate_limiter = rate_limiter
        self._linger_s = linger_s
        self._together = together
        self._middleware = middleware
        self._margin_ms = min(MAX_MARGIN_MS, queue.spec.lease_ms // 5)
        self._timeout_ms = int(queue.spec.execution_timeout_seconds * 1000)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._committer: Thread | None = None

    def grow(self, wanted: int) -> None:
        """Have so many threads more, up to the concurrency."""
        with self._lock:
            for _ in range(min(wanted, self._pipeline.concurrency - len(self._threads))):
                thread = Thread(target=self._work, name="millrace-runner", daemon=True)
                self._threads.append(thread)
                thread.start()
            if self._committer is None:
                self._committer = Thread(target=self._commit, name="millrace-committer", daemon=True)
                self._committer.start()

    def join(self) -> None:
        """Wait for every thread but those that are stuck in a run that was given up."""
        for thread in self._threads:
            while thread.is_alive() and not self._only_stuck_are_left():
                thread.join(0.05)
        if self._committer:
            self._committer.join()

    def work_here(self) -> None:
        """Run and commit what is buffered in the calling thread, and end: no thread is started."""
        self._pipeline.close()
        self._work()
        self._commit()

    def _only_stuck_are_left(self) -> bool:
        return self._pipeline.stuck >= sum(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        if self._together is not None:
            self._work_together(self._together)
            return
        while (run := self._pipeline.next()) is not None:
            try:
                if self._may_start(run):
                    self._execute(run)
                else:
                    self._endings.give_back(run)
            finally:
                self._pipeline.left(run)

    def _work_together(self, together: Together) -> None:
        while (call := self._pipeline.next_call()) is not None:
            try:
                self._execute_together(together, call.runs)
            finally:
                for run in call.runs:
                    self._pipeline.left(run)
                self._pipeline.called()

    def _execute_together(self, together: Together, runs: list[Run]) -> None:
        """One call for all runs that may start; what it says of each is the ending of that one alone."""
        contexts = self._begin_together(runs)
        if not contexts:
            return
        begun = self._queue.now()
        outcomes = together.handler(list(contexts.values()))
        each_ms = (self._queue.now() - begun) // len(contexts)
        for _ in contexts:
            self._counter.ran(each_ms)
        calls = [
            (run, partial(self._call, run, context, wrap(partial(_given, outcome), self._middleware)))
            for (run, context), outcome in zip(contexts.items(), outcomes, strict=True)
        ]
        if self._pipeline.fifo:
            self._return_in_order(calls)
            return
        for run, call in calls:
            self._endings.returned(run, call())

    def _return_in_order(self, calls: Sequence[tuple[Run, Callable[[], Exception | None]]]) -> None:
        """End those that are done with their neighbours; one with writes of its own alone; none behind a failure."""
        done: list[Run] = []
        in_turn = True
        for run, call in calls:
            error = call() if in_turn else None
            if in_turn and error is None and not run.writes:
                done.append(run)
                continue
            in_turn = in_turn and self._endings.done_in_order(done)
            done = []
            if in_turn:
                in_turn = self._endings.returned(run, error)
            else:
                self._endings.not_in_turn(run)
        self._endings.done_in_order(done)

    def _begin_together(self, runs: list[Run]) -> dict[Run, RunContext]:
        """Start those that may; in a first-in-first-out queue none behind one that may not."""
        contexts: dict[Run, RunContext] = {}
        blocked = False
        for run in runs:
            context = self._begin(run) if not blocked and self._may_start(run) else None
            if context is not None:
                contexts[run] = context
            else:
                self._endings.give_back(run)
                blocked = self._pipeline.fifo
        return contexts

    def _commit(self) -> None:
        while (batch := self._pipeline.next_batch(self._linger_s)) is not None:
            self._endings.commit(*batch)

    def _may_start(self, run: Run) -> bool:
        """Whether a run starts in time under the rate limit, and while its claim is live with a margin."""
        while self._rate_limiter and not self._rate_limiter.in_time(run.start_at):
            times = self._rate_limiter.reserve(1)
            if not times or times[0] > run.entry.until - self._margin_ms:
                return False
            run.start_at = times[0]
            while self._queue.now() < run.start_at:
                self._pipeline.wait_until(run.start_at)
        if not run.live(self._queue.now(), self._margin_ms):
            self._counter.count("too_late")
            return False
        return True

    def _execute(self, run: Run) -> None:
        context = self._begin(run)
        if context is not None:
            error = self._call(run, context, self._handler)
            self._counter.ran(self._queue.now() - run.started_at)
            self._endings.returned(run, error)

    def _begin(self, run: Run) -> RunContext | None:
        """Start a run: what its handler gets; None where its claim was lost meanwhile."""
        now = self._queue.now()
        if not self._pipeline.start(run, now, now + self._timeout_ms):
            return None
        self._queue.record(HistoryEvent.STARTED, [run.entry], now)
        due = max(run.claim.entry.enqueued_at, run.claim.entry.due)
        self._counter.started(max(0, now - due))
        return RunContext(
            self._queue, run.claim, run.cancelled, run.started_at, run.deadline, partial(self._extend, run)
        )

    @staticmethod
    def _call(run: Run, context: RunContext, handler: Handler) -> Exception | None:
        """Do the work of a run: what it raised."""
        try:
            run.result = result_bytes(handler(context))
            run.writes = context.staged.writes
        except Exception as raised:  # noqa: BLE001 (a handler may raise anything; it is recorded as a failed run)
            return raised
        return None

    def _extend(self, run: Run, millis: int) -> int:
        """Hold a run's claim now and move its deadline: where it is then. Raises StaleClaim, StoreUnavailable."""
        (answer,) = extend(self._queue, [run.entry])
        if isinstance(answer, MillraceError):
            raise answer
        deadline = self._pipeline.prolong(run, answer, self._queue.now() + millis)
        if deadline is None:
            raise StaleClaim(run.entry.id, run.entry.version, None)
        return deadline


def _given(outcome: Outcome, _context: RunContext) -> Any:
    """Stands for the handler of one message whose batch was run already."""
    return outcome.give()
