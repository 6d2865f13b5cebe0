"""What a worker holds and has not started: which run may start now, alone or in company, and when the next may.

It has no lock of its own: the pipeline calls it under its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from millrace.engine.queue import Queue
from millrace.handlers.batches import BatchSettings
from millrace.model.queue_spec import Ordering
from millrace.worker.body_budget import BodyBudget
from millrace.worker.run import BatchCall, Run, Stage

#: Runs that wait for memory and do not count as buffered; the next ones do, so that a worker does not hoard.
MAX_DEFERRED = 25


class Buffer:
    """Buffered runs, in the order in which they may start."""

    def __init__(
        self, queue: Queue, batch: BatchSettings, budget: BodyBudget | None, on_deferred: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._fifo = queue.spec.ordering is Ordering.FIFO
        self._batch = batch
        self._budget = budget
        self._on_deferred = on_deferred  #: there is room for another
        self._runs: deque[Run] = deque()
        self._deferred = 0  #: how many wait for memory

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run: Run) -> bool:
        return run in self._runs

    @property
    def startable(self) -> int:
        """How many may start: all but those that wait for memory."""
        return len(self._runs) - min(MAX_DEFERRED, self._deferred)

    @property
    def calls(self) -> int:
        """How many calls of the handler these are."""
        return -(-len(self._runs) // self._batch.size)

    def append(self, run: Run) -> None:
        run.buffered_at = self._queue.now()
        run.alone = BatchSettings.alone(run.claim.attempt, self._queue.spec.delivery.max_attempts)
        self._runs.append(run)

    def remove(self, run: Run) -> None:
        self._runs.remove(run)
        self._deferred -= run.deferred

    def take_all(self) -> list[Run]:
        """Everything that has not started; nothing is left."""
        runs = [run for run in self._runs if run.stage is Stage.BUFFERED]
        self._runs.clear()
        self._deferred = 0
        return runs

    def take_first(self, *, in_company: bool = False) -> Run | None:
        """The first run whose turn it is and whose body fits beside those that run."""
        run = self._first_that_fits(in_company=in_company)
        if run is not None:
            self.remove(run)
        return run

    def take_call(self) -> BatchCall | None:
        """The first run that may start, and with it up to a batch of those that may share its call."""
        runs: list[Run] = []
        while len(runs) < self._batch.size:
            run = self.take_first(in_company=bool(runs))
            if run is None:
                break
            runs.append(run)
            if run.alone:
                break
        if not runs:
            return None
        call = BatchCall(runs)
        for run in runs:
            run.call = call
        return call

    def company_in(self, *, closed: bool) -> int:
        """Milliseconds that the first run still waits for others; 0 for not at all.

        Nothing waits under a rate limit, whose turns would pass, nor in a first-in-first-out queue, which hands out
        nothing more before this is over.
        """
        together = [run for run in self._runs if not run.alone]
        waits = not self._fifo and not self._queue.spec.rate_per_second and not closed
        if not waits or len(together) < len(self._runs) or not 0 < len(together) < self._batch.size:
            return 0
        return together[0].buffered_at + self._batch.wait_ms - self._queue.now()

    def turn_in(self) -> int:
        """Milliseconds until the rate limit lets the next run start that does not wait for memory; 0 for none."""
        turns = [run.start_at for run in self._runs if not run.deferred]
        return turns[0] - self._queue.now() if turns else 0

    def _first_that_fits(self, *, in_company: bool) -> Run | None:
        now = self._queue.now()
        full = False
        for run in self._runs:
            if run.start_at > now or (in_company and run.alone and self._fifo):
                return None
            if in_company and run.alone:
                continue
            if self._budget is None or self._budget.is_small(run) or (not full and self._budget.take(run)):
                return run
            full = True
            if not run.deferred:
                run.deferred = True
                self._deferred += 1
                self._on_deferred()
            if self._fifo:
                return None
        return None
