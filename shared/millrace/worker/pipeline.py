"""What a worker holds, and in which stage: the one place that its threads share, behind one lock.

    BUFFERED ──► RUNNING ──► FINISHING ──► GONE
        └─────────────────────┘ └── an ack waits here for its batch

Whoever moves a run to FINISHING (`take…`) owns its ending; no other thread can take it then.

Everything is bounded: at most `concurrency` run, about two batches are buffered, and a fetch waits while more than
a few batches of acks are unwritten. A body too large to start beside those that run (`body_budget`) waits in the
buffer; up to a batch of such waits without keeping others from being fetched and started.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Condition, Lock

from millrace.engine.queue import Queue
from millrace.handlers.batches import BatchSettings
from millrace.model.message import Entry
from millrace.model.queue_spec import Ordering
from millrace.worker.body_budget import BodyBudget
from millrace.worker.buffer import Buffer
from millrace.worker.run import BatchCall, Run, Stage
from millrace.worker.time_left import TimeLeft, Wait

#: Claims of one fetch, and acks of one commit: what one batch request carries.
BATCH = 25
#: Acks that may wait to be written before no more is fetched.
MAX_UNWRITTEN = 4 * BATCH


class Pipeline:
    """Runs by stage. Every method is one step under the lock; the waits give it up."""

    def __init__(
        self,
        queue: Queue,
        concurrency: int,
        time_left: TimeLeft,
        wait: Wait,
        budget: BodyBudget | None = None,
        batch: BatchSettings | None = None,
    ) -> None:
        self.fifo = queue.spec.ordering is Ordering.FIFO
        self.concurrency = 1 if self.fifo else concurrency
        self._queue = queue
        self._wait = wait
        self._time = time_left
        self._budget = budget
        self._batch = batch or BatchSettings(1)
        self._calls = 0  #: threads that run a batch
        self._lock = Lock()
        self._startable = Condition(self._lock)
        self._move = Condition(self._lock)
        self._committable = Condition(self._lock)
        self._buffer = Buffer(queue, self._batch, budget, self._moved)
        self._held: dict[str, Run] = {}
        self._finished: list[Run] = []  #: done; their acks are still to be written
        self._ended: list[Run] = []  #: done and out of the queue: what follows is still to be written
        self._writing = 0  #: runs whose ending is being written
        self._following = 0  #: runs whose entry is gone, and whose results and counters are still to be written
        self._waiting_runners = 0
        self._ahead = 0  #: the fetch is woken when no more than this is buffered
        self.stuck = 0  #: threads whose run was given up but has not come back
        self._closed = False
        self._halted = False
        self.moves = 0  #: counts up with every move, so that none is missed between a look and a wait

    # -- fetch --------------------------------------------------------------------------------------------------
    def room(self, ahead: int) -> int:
        """How many more may be claimed now: 0 while enough is buffered."""
        with self._lock:
            self._ahead = ahead
            if self.fifo:
                return 0 if self._held or self._following > MAX_UNWRITTEN else max(BATCH, self._batch.size)
            if len(self._finished) + self._writing + self._following > MAX_UNWRITTEN:
                return 0
            if self._batch.size > 1:
                free = max(0, self.concurrency - self._calls - self.stuck)
                most = max(BATCH, self._batch.size)
                return min(most, max(0, free * self._batch.size + 2 * ahead - self._buffer.startable))
            if self._buffer.startable > ahead:
                return 0
            waiting = len(self._buffer) - self._buffer.startable
            unfinished = len(self._held) - waiting - len(self._finished) - self._writing + self.stuck
            return min(BATCH, max(0, self.concurrency + 2 * ahead - unfinished))

    def add(self, runs: Iterable[Run]) -> int:
        """Buffer claimed runs; how many threads more would have something to do."""
        with self._lock:
            for run in runs:
                self._held[run.entry.token] = run
                self._buffer.append(run)
            self._startable.notify(len(self._buffer))
            return max(0, self._buffer.calls - self._waiting_runners)

    def wait_for_move(self, seen: int, seconds: float | None) -> None:
        """Until something has moved since `moves` was `seen`, or the time is over."""
        with self._lock:
            if self.moves == seen:
                self._move.wait(seconds)

    def wait_until(self, at: int) -> None:
        """Until a time by the queue's clock, or something moves: for work that becomes due."""
        with self._lock:
            early = at - self._queue.now()
            if early > 0:
                self._wait(self._move, early / 1000)

    def halt(self) -> None:
        """Start nothing more: what is buffered waits to be released."""
        with self._lock:
            self._halted = True
            self._moved()

    def _made_room(self) -> None:
        """Wake the fetch only when it may have something to do: it would be woken for every message otherwise."""
        if self._buffer.startable <= self._ahead or not self._held:
            self._moved()

    def _moved(self) -> None:
        self.moves += 1
        self._move.notify_all()

    @property
    def busy(self) -> bool:
        """Something is held whose ending, or what follows it, is still to come."""
        with self._lock:
            return bool(self._held or self._following)

    # -- run ----------------------------------------------------------------------------------------------------
    def next(self) -> Run | None:
        """The next run to start, waiting for one and for its turn under the rate limit; None at the end."""
        with self._lock:
            while True:
                may_start = bool(self._buffer) and not self._halted and not self._time.stopped
                run = self._buffer.take_first() if may_start else None
                if run is not None:
                    self._made_room()
                    return run
                early = self._buffer.turn_in() if may_start else 0
                if early > 0:
                    self._wait(self._startable, early / 1000)
                elif self._closed and not may_start:
                    return None
                else:
                    self._waiting_runners += 1
                    self._startable.wait()
                    self._waiting_runners -= 1

    def next_call(self) -> BatchCall | None:
        """Runs to be done together: as many as there are once they are enough, or the first waited long enough."""
        with self._lock:
            while True:
                may_start = bool(self._buffer) and not self._halted and not self._time.stopped
                early = self._buffer.company_in(closed=self._closed) if may_start else 0
                call = self._buffer.take_call() if may_start and early <= 0 else None
                if call is not None:
                    self._calls += 1
                    self._made_room()
                    return call
                early = early if early > 0 else self._buffer.turn_in() if may_start else 0
                if early > 0:
                    self._waiting_runners += 1
                    self._wait(self._startable, early / 1000)
                    self._waiting_runners -= 1
                elif self._closed and not may_start:
                    return None
                else:
                    self._waiting_runners += 1
                    self._startable.wait()
                    self._waiting_runners -= 1

    @property
    def company_poll_ms(self) -> int:
        """How often to look for others while some wait for them; 0 where none does."""
        with self._lock:
            return (
                max(10, self._batch.wait_ms // 4)
                if self._buffer and self._buffer.company_in(closed=self._closed) > 0
                else 0
            )

    def called(self) -> None:
        """A batch's thread has come back."""
        with self._lock:
            self._calls -= 1
            self._moved()

    def left(self, run: Run) -> None:
        """A thread has done with a run: its body's memory is free, also where the run was given up long ago."""
        if self._budget is not None:
            self._budget.give(run)

    def may_fit(self) -> None:
        """Memory became free: what waits for it is looked at again."""
        with self._lock:
            self._startable.notify_all()

    def start(self, run: Run, now: int, deadline: int) -> bool:
        """Move a run from the buffer to running; False when its claim was lost meanwhile."""
        with self._lock:
            if run.stage is not Stage.BUFFERED:
                return False
            run.stage, run.started_at, run.deadline = Stage.RUNNING, now, deadline
            return True

    def prolong(self, run: Run, extended: Entry, deadline: int) -> int | None:
        """Keep an extended claim and a later deadline of a run that still counts: its deadline; None for any other."""
        with self._lock:
            if run.stage is not Stage.RUNNING:
                return None
            run.entry = extended
            run.deadline = max(run.deadline, deadline)
            return run.deadline

    def take(self, run: Run, *expected: Stage) -> bool:
        """Own the ending of a run; False when another thread does already."""
        with self._lock:
            if run.stage not in expected:
                return False
            run.stage = Stage.FINISHING
            self._writing += 1
            return True

    def thread_returned(self, run: Run) -> None:
        """A thread whose run was given up is free again."""
        with self._lock:
            if run.call is not None and not run.call.stuck:
                return
            if run.call is not None:
                run.call.stuck = False
                self._calls += 1  # counted again until it has ended the rest
            self.stuck -= 1
            self._moved()

    def thread_stuck(self, run: Run) -> int:
        """A thread is stuck in a run that no longer counts, as none of its others does; how many are now."""
        with self._lock:
            call = run.call
            if call is not None:
                if call.stuck or any(other.stage is Stage.RUNNING for other in call.runs):
                    return self.stuck
                call.stuck = True
                self._calls -= 1
            self.stuck += 1
            return self.stuck

    def drop(self, runs: Iterable[Run]) -> None:
        """These have ended, or are not ours any more."""
        with self._lock:
            for run in runs:
                self._held.pop(run.entry.token, None)
                self._writing -= run.stage is Stage.FINISHING
                run.stage = Stage.GONE
            self._made_room()

    def take_unstarted(self) -> list[Run]:
        """Own the endings of everything that has not started."""
        with self._lock:
            runs = self._buffer.take_all()
            for run in runs:
                run.stage = Stage.FINISHING
            self._writing += len(runs)
        self._forget(runs)
        return runs

    def _forget(self, runs: Iterable[Run]) -> None:
        """These will not start here: none of them keeps its place before others that wait for memory."""
        for run in runs:
            self.left(run)

    # -- commit -------------------------------------------------------------------------------------------------
    def await_ack(self, run: Run) -> None:
        """A run is done: its ack goes with the next batch."""
        with self._lock:
            self._writing -= 1
            self._finished.append(run)
            lone = len(self._finished) >= BATCH or len(self._held) == len(self._finished) + self._writing
            if lone or len(self._finished) == 1:
                self._committable.notify()

    def await_follow_up(self, run: Run) -> None:
        """A run is done and its entry gone: what follows goes with the next batch."""
        with self._lock:
            self._held.pop(run.entry.token, None)
            self._writing -= 1
            run.stage = Stage.GONE
            self._ended.append(run)
            self._following += 1
            self._committable.notify()
            self._made_room()

    def followed_up(self, count: int) -> None:
        """What follows so many runs is written, or given up."""
        with self._lock:
            self._following -= count
            self._moved()

    def next_batch(self, linger_s: float) -> tuple[list[Run], list[Run]] | None:
        """Up to a batch of done runs to ack, and of ended ones to follow up.

        At once when nothing else is under way, else after a short linger.
        """
        with self._lock:
            while not self._finished and not self._ended:
                if self._closed:
                    return None
                self._committable.wait()
            under_way = len(self._held) > len(self._finished) + self._writing
            waiting = max(len(self._finished), len(self._ended))
            if linger_s > 0 and under_way and waiting < BATCH and not self._closed:
                self._wait(self._committable, linger_s)
            acks, ended = self._finished[:BATCH], self._ended[:BATCH]
            del self._finished[:BATCH], self._ended[:BATCH]
            self._writing += len(acks)
            return acks, ended

    # -- hold ---------------------------------------------------------------------------------------------------
    def held(self) -> list[Run]:
        with self._lock:
            return list(self._held.values())

    def take_overdue(self, now: int) -> list[Run]:
        """Own the endings of runs past their execution timeout."""
        with self._lock:
            late = [run for run in self._held.values() if run.stage is Stage.RUNNING and run.deadline <= now]
            for run in late:
                run.stage = Stage.FINISHING
            self._writing += len(late)
            return late

    def take_lost(self, run: Run) -> Stage | None:
        """Drop a run whose claim is lost. The stage it was in; None when its ending was under way already."""
        with self._lock:
            stage = run.stage
            if stage not in (Stage.BUFFERED, Stage.RUNNING):
                return None
            if run in self._buffer:
                self._buffer.remove(run)
            run.stage = Stage.GONE
            self._held.pop(run.entry.token, None)
            self._moved()
        if stage is Stage.BUFFERED:
            self._forget([run])
        return stage

    def close(self) -> None:
        """No more will be added: runners and the committer end when they have nothing left."""
        with self._lock:
            self._closed = True
            self._startable.notify_all()
            self._committable.notify_all()
            self._moved()
