"""A worker: drains one queue with one handler until nothing is due, its time is short, or it is stopped.

The calling thread fetches: it claims the next batch while earlier ones run. Runners call the handler, at most as
many as the queue's concurrency; the committer acks what is done in batches; the heartbeat extends claims. A worker is
used once. Calls go one way:

    Worker ──► Runners, Heartbeat ──► Endings ──► Pipeline

A first-in-first-out queue is run by one lane: each message starts only after the entry of the one before it is gone
for sure; its result and the counters follow behind. When one does not succeed the rest of its batch is released.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.engine.claim import Claimed, claim
from millrace.engine.counters import flush
from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import random_token
from millrace.worker.body_budget import DEFAULT_MEMORY, BodyBudget
from millrace.worker.breaker import Allowance, Breakers
from millrace.worker.counts import Counts, RunCounter
from millrace.worker.endings import Endings
from millrace.worker.heartbeat import Heartbeat
from millrace.worker.middleware import Handler, Middleware, wrap
from millrace.worker.pipeline import BATCH, Pipeline
from millrace.worker.rate_limiter import RateLimiter
from millrace.worker.run import Run
from millrace.worker.runners import Runners, Together
from millrace.worker.slots import SlotLease
from millrace.worker.time_left import TimeLeft, Wait, real_wait

#: So much work is claimed ahead of what runs: a little more than the time of one fetch.
AHEAD_S = 0.25
MAX_AHEAD = 2 * BATCH


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works. What the queue promises is in its definition."""

    concurrency: int = 10  #: runs at the same time in this worker
    stop_claiming_ms: int = 10_000  #: with less time left than this, nothing more is claimed
    cut_ms: int = 2_000  #: with less time left than this, runs still going are given up
    patience_ms: int = 20_000  #: wait for work that becomes due within this; 0 ends as soon as nothing is due now
    poll_ms: int = 250  #: while waiting, poll for new work this often
    linger_ms: int = 4  #: an ack waits so long for others to share its request
    stuck_grace_s: float = 5.0  #: when every thread is stuck, the others' time to finish
    heartbeat: bool = True  #: off only in tests, which beat by hand


DEFAULTS = WorkerSettings()


@dataclass(frozen=True, slots=True)
class DrainResult:
    """How a drain ended."""

    counts: Counts
    next_at: int | None  #: when something more becomes due, as far as was seen; None when nothing is in sight
    stuck: int = 0  #: threads still in a handler that was given up
    reason: str = "idle"


class Worker:
    """One worker on one queue. `run` blocks until it is over."""

    def __init__(
        self,
        queue: Queue,
        handler: Handler,
        *,
        settings: WorkerSettings = DEFAULTS,
        middleware: tuple[Middleware, ...] = (),
        time_left: TimeLeft | None = None,
        breakers: Breakers | None = None,
        slot: SlotLease | None = None,
        budget: BodyBudget | None = None,
        together: Together | None = None,
        owner: str = "",
        wait: Wait = real_wait,
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._time = time_left or TimeLeft()
        self._breakers = breakers
        self.owner = owner or f"worker-{random_token(queue.runtime.entropy)[:10]}"
        spec = queue.spec
        self._rate_limiter = RateLimiter(queue, spec.rate_per_second) if spec.rate_per_second else None
        self._counter = RunCounter()
        concurrency = min(slot.concurrency if slot else settings.concurrency, spec.max_concurrency)
        self._budget = budget or BodyBudget.of_memory(DEFAULT_MEMORY)
        batch = together.settings if together else None
        if batch and not settings.patience_ms:  # it waits for nothing, nor for company
            batch = replace(batch, wait_ms=0)
        self.pipeline = Pipeline(queue, concurrency, self._time, wait, self._budget, batch)
        self._endings = Endings(queue, self.pipeline, self._counter, self._time, settings.stuck_grace_s)
        self._runners = Runners(
            queue,
            self.pipeline,
            self._endings,
            self._counter,
            wrap(handler, middleware),
            self._rate_limiter,
            settings.linger_ms / 1000,
            together,
            middleware,
        )
        self.heartbeat = Heartbeat(queue, self.pipeline, self._endings, self._time, slot)
        self._next_at: int | None = None
        self._began = queue.now()
        self._idle_since = 0

    def stop(self, grace_s: float = 25.0, reason: str = "stopped") -> None:
        """Claim nothing more, give back what has not started, let what runs finish within `grace_s`."""
        self._time.stop(grace_s, reason)

    def run(self) -> DrainResult:
        """Drain the queue. Raises StoreUnavailable when the store stays silent; nothing is lost by that."""
        draining = self._queue.runtime.pending_counters.drained(self._queue.tenant, self._queue.spec.name)
        with self._time.on_stop(self.pipeline.halt), self._budget.on_room(self.pipeline.may_fit), draining:
            if self._settings.heartbeat:
                self.heartbeat.start()
            try:
                while self._may_claim() and self._fetch():
                    pass
            finally:
                self._wind_up()
        return DrainResult(self._counter.counts(), self._next_at, self.pipeline.stuck, self._reason())

    def step(self) -> int:
        """Claim one message, run and commit it in the calling thread; how many were started. Raises StoreUnavailable.

        In place of `run`, where every call has to come in one order: exploration.
        """
        claimed = self._claim(1, least_tried=False)
        self.pipeline.add(self._with_start_times([Run(taken, taken.entry) for taken in claimed.claims]))
        self._runners.work_here()
        flush(self._queue)
        return self._counter.counts()["started"]

    def _reason(self) -> str:
        return self._time.reason or ("idle" if self._may_claim() else "deadline")

    def _may_claim(self) -> bool:
        left = self._time.left_ms()
        return not self._time.stopped and (left is None or left > self._settings.stop_claiming_ms)

    # -- fetch --------------------------------------------------------------------------------------------------
    def _fetch(self) -> bool:
        """Claim what there is room for, or wait for room or work; False when there is nothing left to wait for."""
        seen = self.pipeline.moves
        room = self.pipeline.room(self._ahead())
        if not room:
            self._pause(seen, None)
            return True
        allowed = self._breakers.allowance() if self._breakers else Allowance()
        limit = min(room, allowed.limit, self._rate_limiter.block if self._rate_limiter else room)
        rate_wait_ms = self._rate_limiter.wait_ms() if self._rate_limiter else 0
        if not limit or rate_wait_ms:
            return self._idle(seen, allowed.next_at if not limit else self._queue.now() + rate_wait_ms)
        claimed = self._claim(limit, least_tried=allowed.probe)
        if not claimed.claims and not self._idle(seen, claimed.next_at):
            # Before it leaves: what was left to others, since they may have left as well.
            claimed = self._claim(limit, least_tried=allowed.probe, sharing=False) if claimed.left else claimed
            if not claimed.claims:
                return False
        if not claimed.claims:
            return True
        self._idle_since = 0
        runs = self._with_start_times([Run(taken, taken.entry) for taken in claimed.claims])
        self._runners.grow(self.pipeline.add(runs))
        return True

    def _claim(self, limit: int, *, least_tried: bool, sharing: bool = True) -> Claimed:
        try:
            return claim(self._queue, owner=self.owner, limit=limit, least_tried=least_tried, sharing=sharing)
        except StoreUnavailable:
            if not self.pipeline.busy:
                raise
            return Claimed([], self._queue.now() + self._settings.poll_ms)

    def _with_start_times(self, runs: list[Run]) -> list[Run]:
        """Give each run its time under the rate limit; what gets none is released."""
        if self._rate_limiter is None:
            return runs
        times = self._rate_limiter.reserve(len(runs))
        for run, start_at in zip(runs, times, strict=False):
            run.start_at = start_at
        if len(times) < len(runs):
            self._endings.release(runs[len(times) :])
        return runs[: len(times)]

    def _idle(self, seen: int, next_at: int | None) -> bool:
        """Nothing to claim now: wait for what runs, or for what becomes due in time; False when there is neither."""
        self._next_at = next_at
        now = self._queue.now()
        self._idle_since = self._idle_since or now
        soon = None if next_at is None else max(0, next_at - now)
        if self.pipeline.busy:
            poll_ms = min(self._settings.poll_ms, self.pipeline.company_poll_ms or self._settings.poll_ms)
            self._pause(seen, poll_ms if soon is None else min(soon, poll_ms))
            return True
        patience = self._settings.patience_ms
        left = self._time.left_ms()
        if left is not None:
            patience = min(patience, left - self._settings.stop_claiming_ms)
        # What others hold, or have not committed, may stay "soon" for minutes: patience has an end.
        waited = now - self._idle_since
        if soon is None or soon + waited > patience or self._settings.patience_ms == 0:
            return False
        self.pipeline.wait_until(now + max(1, min(soon, self._settings.poll_ms)))
        return True

    def _pause(self, seen: int, millis: int | None) -> None:
        """Wait for a run to move on, at most so long, and never past the time to stop claiming."""
        left = self._time.left_ms()
        if left is not None:
            until_stop = max(0, left - self._settings.stop_claiming_ms)
            millis = until_stop if millis is None else min(millis, until_stop)
        self.pipeline.wait_for_move(seen, None if millis is None else max(1, millis) / 1000)

    def _ahead(self) -> int:
        """How many to hold beyond those that run: as much as AHEAD_S of work, so none of slow work."""
        run_ms = self._counter.typical_run_ms
        if run_ms is None:
            return 0
        return min(MAX_AHEAD, int(AHEAD_S * 1000 * self.pipeline.concurrency / max(run_ms, 0.1)))

    # -- the end ------------------------------------------------------------------------------------------------
    def _wind_up(self) -> None:
        """Give back what has not started, wait for what runs, write what is done, and end every thread."""
        self.pipeline.halt()
        self._endings.release_unstarted()
        seen = self.pipeline.moves
        while self.pipeline.busy and not self._must_cut():
            self.pipeline.wait_for_move(seen, self._until_cut_s())
            seen = self.pipeline.moves
        self._endings.cut(self._began)
        self.pipeline.close()
        self._runners.join()
        self.heartbeat.stop()
        flush(self._queue)

    def _until_cut_s(self) -> float:
        left = self._time.left_ms()
        return 1.0 if left is None else min(1.0, max(0.001, (left - self._settings.cut_ms) / 1000))

    def _must_cut(self) -> bool:
        left = self._time.left_ms()
        return left is not None and left <= self._settings.cut_ms
