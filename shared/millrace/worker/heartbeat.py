"""The heartbeat: one thread that extends claims, ends runs that take too long, and renews the worker's slot.

Claims are extended at a third of the lease, all in one batch, and the slot at a third of its own, which is shorter. A
claim that was lost, or that could not be extended before it ran out by this clock, cancels its run: the context's
`cancelled` is set and the result is discarded.

A thread cannot be killed from outside. A run past its execution timeout is recorded as failed and its message goes
on; the thread stays with the handler until that returns, and keeps its place among the queue's concurrency, so a
hanging target gets no more parallel calls than it may. When every place is taken that way, the worker ends.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Condition, Thread

from millrace.engine.counters import book_what_is_due
from millrace.engine.finish import extend
from millrace.engine.queue import Queue
from millrace.model.errors import MillraceError, StaleClaim
from millrace.worker.endings import Endings
from millrace.worker.pipeline import Pipeline
from millrace.worker.slots import SLOT_LEASE_MS, SlotLease
from millrace.worker.time_left import TimeLeft

#: How often runs are checked against their timeout.
CHECK_MS = 500
SLOT_BEAT_MS = SLOT_LEASE_MS // 3
#: A slot lost means that another worker has this one's place: finish quickly.
LOST_SLOT_GRACE_S = 5.0


class Heartbeat:
    """Keeps what a worker holds. Tests call `beat`, `renew_slot` and `check` themselves."""

    def __init__(
        self, queue: Queue, pipeline: Pipeline, endings: Endings, time_left: TimeLeft, slot: SlotLease | None
    ) -> None:
        self._queue = queue
        self._pipeline = pipeline
        self._endings = endings
        self._time = time_left
        self._slot = slot
        self._beat_ms = max(1, queue.spec.lease_ms // 3)
        self._last_beat = self._slot_renewed_at = queue.now()
        self._wake = Condition()
        self._stopped = False
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="millrace-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        timeout_ms = int(self._queue.spec.execution_timeout_seconds * 1000)
        pause = min(self._beat_ms, CHECK_MS, max(10, timeout_ms // 2)) / 1000
        while True:
            with self._wake:
                if not self._stopped:
                    self._wake.wait(pause)
                if self._stopped:
                    return
            self.check()
            if self._queue.now() - self._slot_renewed_at >= SLOT_BEAT_MS:
                self.renew_slot()
            if self._queue.now() - self._last_beat >= self._beat_ms:
                self.beat()

    def check(self) -> None:
        """End runs that are past their execution timeout; count endings that have waited for others long enough."""
        self._endings.time_out()
        with suppress(MillraceError):  # the counter's state could not be read: the next time it is
            book_what_is_due(self._queue)

    def renew_slot(self) -> None:
        """Hold the worker's slot for another lease, or end the worker where another has it."""
        self._slot_renewed_at = self._queue.now()
        if self._slot and not self._slot.renew():
            self._time.stop(LOST_SLOT_GRACE_S, "slot lost")

    def beat(self) -> None:
        """Extend every claim held, in batches."""
        self._last_beat = self._queue.now()
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
                self._endings.lose(run)
