"""The keeper: one thread that extends claims, ends runs that take too long, and keeps the worker's slot.

Claims are extended at a third of the lease, all in one batch. A claim that was lost, or that could not be extended
before it ran out by this clock, cancels its run: the context's `cancelled` is set and the result is discarded.

A thread cannot be killed from outside. A run past its execution timeout is recorded as failed and its message goes
on; the thread stays with the handler until that returns, and keeps its place among the queue's concurrency, so a
hanging target gets no more parallel calls than it may. When every place is taken that way, the worker ends.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread

from millrace.engine.finish import extend
from millrace.engine.queue import Queue
from millrace.model.errors import MillraceError, StaleClaim
from millrace.worker.controls import ExecutionTimeout
from millrace.worker.counts import Counting
from millrace.worker.outcome import Failed
from millrace.worker.pipeline import Pipeline
from millrace.worker.run import Run, Stage

#: How often runs are checked against their timeout.
CHECK_MS = 500


class Heartbeat:
    """Keeps what a worker holds. `beat` and `check` are also there for tests to call."""

    def __init__(
        self,
        queue: Queue,
        pipeline: Pipeline,
        counting: Counting,
        *,
        end: Callable[[Run, Failed], None],
        release_rest: Callable[[], None],
        on_stuck: Callable[[], None],
        keep_slot: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._pipeline = pipeline
        self._counting = counting
        self._end = end
        self._release_rest = release_rest
        self._on_stuck = on_stuck
        self._keep_slot = keep_slot
        self._beat_ms = max(1, queue.spec.lease_ms // 3)
        self._beaten_at = queue.now()
        self._turn = Condition()
        self._stopped = False
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._keep, name="millrace-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._turn:
            self._stopped = True
            self._turn.notify_all()
        if self._thread:
            self._thread.join()

    def _keep(self) -> None:
        timeout_ms = int(self._queue.spec.execution_timeout_seconds * 1000)
        pause = min(self._beat_ms, CHECK_MS, max(10, timeout_ms // 2)) / 1000
        while True:
            with self._turn:
                if not self._stopped:
                    self._turn.wait(pause)
                if self._stopped:
                    return
            self.check()
            if self._queue.now() - self._beaten_at >= self._beat_ms:
                self.beat()

    def beat(self) -> None:
        """Extend every claim held, in batches, and the slot."""
        self._beaten_at = self._queue.now()
        self._keep_slot()
        runs = self._pipeline.held()
        if not runs:
            return
        try:
            answers = extend(self._queue, [run.entry for run in runs])
        except MillraceError as error:
            answers = [error] * len(runs)
        for run, answer in zip(runs, answers, strict=True):
            if not isinstance(answer, MillraceError):
                run.entry = answer
            elif isinstance(answer, StaleClaim) or not run.live(self._queue.now()):
                self._lose(run)

    def _lose(self, run: Run) -> None:
        stage = self._pipeline.lose(run)
        if stage is None:
            return
        run.cancelled.set()
        self._counting.count("lost")
        if self._pipeline.fifo:
            self._release_rest()
        if stage is Stage.RUNNING:
            self._stuck()

    def check(self) -> None:
        """End runs that are past their execution timeout."""
        for run in self._pipeline.overdue(self._queue.now()):
            run.cancelled.set()
            self._counting.count("timed_out")
            self._stuck()
            error = ExecutionTimeout(self._queue.spec.execution_timeout_seconds)
            self._end(run, Failed(type(error).__name__, str(error)))

    def _stuck(self) -> None:
        if self._pipeline.gave_up() >= self._pipeline.concurrency:
            self._on_stuck()
