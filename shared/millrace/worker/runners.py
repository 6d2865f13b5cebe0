"""Runners and the committer: the threads that do the work and write how it ended."""

from __future__ import annotations

from threading import Lock, Thread
from typing import Any

from millrace.engine.finish import ack, release
from millrace.engine.queue import Queue
from millrace.history.log import HistoryEvent
from millrace.model.errors import MillraceError, StaleClaim
from millrace.worker.context import Context, log
from millrace.worker.counts import Counting
from millrace.worker.middleware import Handler
from millrace.worker.outcome import Done, Failed, Rejected, RunOutcome, Snoozed, outcome_of, record, snapshot
from millrace.worker.pipeline import Pipeline
from millrace.worker.rate_limiter import RateLimiter
from millrace.worker.run import Run, Stage

#: A run starts only if its claim lives at least a fifth of the lease longer, up to this: clocks differ.
MOST_MARGIN_MS = 2_000
#: Acks without an answer are repeated so often; repeating one that succeeded succeeds again.
ACK_TRIES = 3


class Runners:
    """At most `pipeline.concurrency` threads that run, started as they are needed, and one that commits."""

    def __init__(
        self,
        queue: Queue,
        pipeline: Pipeline,
        counting: Counting,
        handler: Handler,
        rate_limiter: RateLimiter | None,
        linger_s: float,
    ) -> None:
        self._queue = queue
        self._pipeline = pipeline
        self._counting = counting
        self._handler = handler
        self._rate_limiter = rate_limiter
        self._linger_s = linger_s
        self._margin_ms = min(MOST_MARGIN_MS, queue.spec.lease_ms // 5)
        self._timeout_ms = int(queue.spec.execution_timeout_seconds * 1000)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._committer: Thread | None = None

    def reach(self, wanted: int) -> None:
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
            while thread.is_alive() and not self._is_stuck(thread):
                thread.join(0.05)
        if self._committer:
            self._committer.join()

    # -- run ----------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while (run := self._pipeline.next()) is not None:
            self._execute(run)

    def _execute(self, run: Run) -> None:
        if not self._in_turn(run):
            return
        now = self._queue.now()
        if not self._pipeline.start(run, now, now + self._timeout_ms):
            return
        self._queue.record(HistoryEvent.STARTED, [run.entry], now)
        due = max(run.claim.entry.enqueued_at, run.claim.entry.due)
        self._counting.started(max(0, now - due))
        outcome = self._outcome(run)
        self._counting.ran(self._queue.now() - now)
        if not self._pipeline.take(run, Stage.RUNNING):
            # Its claim was lost or its time was up: whatever came of it does not count any more.
            self._counting.count("discarded")
            self._pipeline.came_back()
            return
        if not isinstance(outcome, Done):
            self.end(run, outcome)
        elif self._pipeline.fifo:
            run.result = outcome.result
            if not self._ack([run]):
                self._release_rest()
        else:
            run.result = outcome.result
            self._pipeline.finished(run)

    def _in_turn(self, run: Run) -> bool:
        """Whether the run may start: in time under the rate limit, and its claim live with a margin."""
        while self._rate_limiter and not self._rate_limiter.in_time(run.start_at):
            times = self._rate_limiter.reserve(1)
            if not times or times[0] > run.entry.until - self._margin_ms:
                return self._give_back(run)
            run.start_at = times[0]
            while self._queue.now() < run.start_at:
                self._pipeline.wait_until(run.start_at)
        if not run.live(self._queue.now(), self._margin_ms):
            self._counting.count("too_late")
            return self._give_back(run)
        return True

    def _give_back(self, run: Run) -> bool:
        if self._pipeline.take(run, Stage.BUFFERED):
            self._end_quietly([run])
            if self._pipeline.fifo:
                self._release_rest()
        return False

    def _outcome(self, run: Run) -> RunOutcome:
        context = Context(self._queue, run.claim, run.cancelled, run.started_at, run.deadline)
        try:
            return Done(snapshot(self._handler(context)))
        except Exception as error:  # noqa: BLE001 (a handler may raise anything; it is recorded as a failed run)
            return outcome_of(error, self._queue.now())

    # -- endings ------------------------------------------------------------------------------------------------
    def end(self, run: Run, outcome: Failed | Rejected | Snoozed) -> None:
        """Write the ending of a run that is not done. In a first-in-first-out queue the rest is released."""
        try:
            self._counting.count(record(self._queue, run, outcome))
        except StaleClaim:
            self._counting.count("stale")
        except MillraceError as error:
            self._counting.count("unwritten")
            log.warning("An ending could not be written; the claim runs out by itself.", extra={"error": str(error)})
        finally:
            self._pipeline.drop([run])
            if self._pipeline.fifo:
                self._release_rest()

    def _release_rest(self) -> None:
        rest = self._pipeline.unstarted()
        if rest:
            self._counting.count("released", len(rest))
            self._end_quietly(rest)

    def _end_quietly(self, runs: list[Run]) -> None:
        try:
            release(self._queue, [run.entry for run in runs])
        except MillraceError as error:
            log.warning("Claims could not be released; they run out by themselves.", extra={"error": str(error)})
        self._pipeline.drop(runs)

    def cut(self) -> list[Run]:
        """Take every run that is still going; its ending is the caller's, its thread is left behind."""
        taken = [run for run in self._pipeline.held() if self._pipeline.take(run, Stage.RUNNING)]
        for run in taken:
            run.cancelled.set()
            self._pipeline.gave_up()
        return taken

    def _is_stuck(self, thread: Thread) -> bool:
        return self._pipeline.stuck >= sum(other.is_alive() for other in self._threads) and thread.is_alive()

    # -- commit -------------------------------------------------------------------------------------------------
    def _commit(self) -> None:
        while (batch := self._pipeline.commit_batch(self._linger_s)) is not None:
            self._ack(batch)

    def _ack(self, runs: list[Run]) -> bool:
        """Ack a batch; whether all of it is done. Without an answer it is repeated while the claims live."""
        open_ = runs
        for _ in range(ACK_TRIES):
            answers = self._ack_once(open_)
            stale = sum(isinstance(answer, StaleClaim) for answer in answers)
            self._counting.count("done", sum(answer is None for answer in answers))
            self._counting.count("stale", stale)
            open_ = [run for run, answer in zip(open_, answers, strict=True) if _unanswered(answer)]
            if not open_:
                break
        self._counting.count("unwritten", len(open_))
        self._pipeline.drop(runs)
        return not open_ and not stale

    def _ack_once(self, runs: list[Run]) -> list[MillraceError | None]:
        try:
            return ack(self._queue, [run.entry for run in runs], [run.result for run in runs])
        except MillraceError as error:
            return [error] * len(runs)


def _unanswered(answer: Any) -> bool:
    return answer is not None and not isinstance(answer, StaleClaim)
