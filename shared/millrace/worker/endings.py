"""How a claim ends: the one place where a worker acks, records a failure, releases, or gives a run up.

Whoever takes a run out of its stage (`Pipeline.take` and its kin) owns its ending and calls here once:

    done ────────► ack            a batch at a time; repeated while no answer comes; alone, with writes of its own
    raised ──────► nack, reject, snooze
    not started ─► release        no attempt is charged
    past its time, or its claim lost: cancelled; its thread is left behind, its result is discarded

In a first-in-first-out queue nothing may overtake: after any ending but success the rest of the batch is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from millrace.engine.end_in_order import end_in_order
from millrace.engine.finish import RunFailure, ack, follow_up, nack, reject, release, snooze
from millrace.engine.queue import Queue
from millrace.engine.transact import end_with
from millrace.handlers.controls import ExecutionTimeout, Reject, Retry, Snooze
from millrace.model.errors import BodyLost, InvalidTransaction, MillraceError, StaleClaim, TransactionRefused
from millrace.model.message import DeadLetterReason
from millrace.worker.context import log
from millrace.worker.counts import RunCounter
from millrace.worker.pipeline import Pipeline
from millrace.worker.run import Run, Stage
from millrace.worker.time_left import TimeLeft

#: Acks without an answer are repeated so often; repeating one that succeeded succeeds again.
ACK_TRIES = 3


class Endings:
    """Ends the runs of one worker. Safe to share between its threads."""

    def __init__(
        self, queue: Queue, pipeline: Pipeline, counter: RunCounter, time_left: TimeLeft, stuck_grace_s: float
    ) -> None:
        self._queue = queue
        self._pipeline = pipeline
        self._counter = counter
        self._time = time_left
        self._stuck_grace_s = stuck_grace_s

    # -- runs that came back ------------------------------------------------------------------------------------
    def returned(self, run: Run, error: Exception | None) -> bool:
        """A handler returned or raised. What it gives counts only if the run was not given up meanwhile.

        Whether what follows in a fifo queue may start: the message is out for sure.
        """
        if not self._own(run):
            return False
        if error is not None:
            self._record(run, error)
            return False
        if run.writes:
            return self._end_with_writes(run)
        if not self._pipeline.fifo:
            self._pipeline.await_ack(run)
            return True
        return self._end_in_order([run])

    def done_in_order(self, runs: Sequence[Run]) -> bool:
        """Neighbours of a fifo queue were done in one call: whether all of them are out for sure."""
        own = list(takewhile(self._own, runs))
        all_out = (not own or self._end_in_order(own)) and len(own) == len(runs)
        for run in runs[len(own) + 1 :]:
            self.not_in_turn(run)
        return all_out

    def _own(self, run: Run) -> bool:
        """Take a run that came back; False where it was given up meanwhile."""
        if self._pipeline.take(run, Stage.RUNNING):
            return True
        self._counter.count("discarded")
        self._pipeline.thread_returned(run)
        return False

    def not_in_turn(self, run: Run) -> None:
        """A run of a batch came back behind one that had not succeeded: nothing of it counts or is charged."""
        if self._pipeline.take(run, Stage.RUNNING):
            self._counter.count("released")
            self.release([run])
        else:
            self._pipeline.thread_returned(run)

    def commit(self, done: list[Run], ended: list[Run]) -> None:
        """Write what is waiting: acks, and what follows those that were written before."""
        if done:
            self.ack(done)
        try:
            follow_up(self._queue, [run.ended for run in ended if run.ended is not None])
        except MillraceError as error:
            fields = {"action": "results_lost", "queue": self._queue.spec.name, "error": str(error)}
            log.warning("Messages are done, but their results could not be kept.", extra=fields)
        finally:
            self._pipeline.followed_up(len(ended))

    def _end_with_writes(self, run: Run) -> bool:
        """Ack together with the handler's own writes. Where one of those is refused, the run has failed."""
        try:
            run.ended = end_with(self._queue, run.entry, run.writes, run.result)
        except (TransactionRefused, InvalidTransaction) as refused:
            self._record(run, refused)
        except MillraceError as problem:
            self._counter.count("stale" if isinstance(problem, StaleClaim) else "unwritten")
            self._pipeline.drop([run])
            self._release_followers()
        else:
            self._counter.count("done")
            self._pipeline.await_follow_up(run)
            return True
        return False

    def _end_in_order(self, runs: Sequence[Run]) -> bool:
        """Take messages out of a fifo queue, the first one first; whether all of them are out for sure.

        Where one is not, those behind it are given back: they count for nothing before it has ended.
        """
        ended, problem = end_in_order(self._queue, [run.entry for run in runs], [run.result for run in runs])
        self._counter.count("done", len(ended))
        for run, one in zip(runs, ended, strict=False):
            run.ended = one
            self._pipeline.await_follow_up(run)
        if problem is None:
            return True
        self._counter.count("stale" if isinstance(problem, StaleClaim) else "unwritten")
        self._pipeline.drop([runs[len(ended)]])
        behind = list(runs[len(ended) + 1 :])
        if behind:
            self._counter.count("released", len(behind))
            self.release(behind)
        self.release_unstarted()
        return False

    def ack(self, runs: list[Run]) -> bool:
        """Ack a batch; whether all of it is done. Without an answer it is repeated while the claims live."""
        left = runs
        for _ in range(ACK_TRIES):
            answers = self._ack_once(left)
            stale = sum(isinstance(answer, StaleClaim) for answer in answers)
            self._counter.count("done", sum(answer is None for answer in answers))
            self._counter.count("stale", stale)
            left = [
                run
                for run, answer in zip(left, answers, strict=True)
                if answer is not None and not isinstance(answer, StaleClaim)
            ]
            if not left:
                break
        self._counter.count("unwritten", len(left))
        self._pipeline.drop(runs)
        return not left and not stale

    def _ack_once(self, runs: list[Run]) -> list[MillraceError | None]:
        try:
            return ack(self._queue, [run.entry for run in runs], [run.result for run in runs])
        except MillraceError as error:
            return [error] * len(runs)

    def _record(self, run: Run, error: Exception) -> None:
        """Write the ending of a run that is not done."""
        try:
            self._counter.count(self._write(run, error))
        except StaleClaim:
            self._counter.count("stale")
        except MillraceError as problem:
            self._counter.count("unwritten")
            log.warning("An ending could not be written; the claim runs out by itself.", extra={"error": str(problem)})
        finally:
            self._pipeline.drop([run])
            self._release_followers()

    def _write(self, run: Run, error: Exception) -> str:
        """One fenced write for what the handler raised; what to count it as."""
        message, lost = run.claim.message, run.claim.lost
        match error:
            case Reject():
                reject(self._queue, run.entry, message, RunFailure("Reject", error.reason), lost)
                return "dead"
            case BodyLost():
                failure = RunFailure("BodyLost", str(error))
                reject(self._queue, run.entry, message, failure, lost, DeadLetterReason.BODY_LOST)
                return "dead"
            case Snooze():
                snooze(self._queue, run.entry, error.until_ms(self._queue.now()))
                return "snoozed"
            case Retry():
                failure, delay_ms = RunFailure(type(error).__name__, str(error)), error.after_ms
            case _:
                name = type(error).__name__
                failure, delay_ms = RunFailure(name, str(error) or name), None
        retried = nack(self._queue, run.entry, message, failure, delay_ms=delay_ms, lost=lost)
        return "retried" if retried else "dead"

    # -- runs that never started --------------------------------------------------------------------------------
    def release_unstarted(self) -> None:
        """Give back everything that is claimed and has not started."""
        runs = self._pipeline.take_unstarted()
        if runs:
            self._counter.count("released", len(runs))
            self.release(runs)

    def give_back(self, run: Run) -> None:
        """Release one run that was about to start and may not."""
        if self._pipeline.take(run, Stage.BUFFERED):
            self.release([run])
            self._release_followers()

    def release(self, runs: list[Run]) -> None:
        """Give claims back at once, charging no attempt. Where that fails they run out by themselves."""
        try:
            release(self._queue, [run.entry for run in runs])
        except MillraceError as error:
            log.warning("Claims could not be released; they run out by themselves.", extra={"error": str(error)})
        self._pipeline.drop(runs)

    def _release_followers(self) -> None:
        if self._pipeline.fifo:
            self.release_unstarted()

    # -- runs that are given up ---------------------------------------------------------------------------------
    def time_out(self) -> None:
        """Fail every run that is past its execution timeout."""
        for run in self._pipeline.take_overdue(self._queue.now()):
            run.cancelled.set()
            self._counter.count("timed_out")
            self._leave_thread(run)
            seconds = self._queue.spec.execution_timeout_seconds
            self._record(run, ExecutionTimeout(f"The run took longer than {seconds:g} s."))

    def lose(self, run: Run) -> None:
        """Another worker may hold the message now: cancel the run, write nothing."""
        stage = self._pipeline.take_lost(run)
        if stage is None:
            return
        run.cancelled.set()
        self._counter.count("lost")
        self._release_followers()
        if stage is Stage.RUNNING:
            self._leave_thread(run)

    def cut(self, began: int) -> None:
        """End the runs still going when the worker's time is over.

        They are released uncharged, unless the worker's time since `began` was mostly theirs: such a run would never
        finish, and must not try again and again.
        """
        now = self._queue.now()
        runs = [run for run in self._pipeline.held() if self._pipeline.take(run, Stage.RUNNING)]
        for run in runs:
            run.cancelled.set()
            self._pipeline.thread_stuck(run)
        spent = [] if self._time.stopped else [run for run in runs if 2 * (now - run.started_at) > now - began]
        for run in spent:
            seconds = (now - run.started_at) / 1000
            self._counter.count("timed_out")
            self._record(run, ExecutionTimeout(f"The worker's time was over after {seconds:g} s."))
        short = [run for run in runs if run not in spent]
        if short:
            self._counter.count("cut", len(short))
            self.release(short)

    def _leave_thread(self, run: Run) -> None:
        """A thread cannot be killed. When all of them are stuck in runs that were given up, the worker ends."""
        if self._pipeline.thread_stuck(run) >= self._pipeline.concurrency:
            self._time.stop(self._stuck_grace_s, "stuck")
