"""Running a job, one slice at a time: bounded in time, one runner at a time, safe to kill anywhere.

A dead letter is replayed once for each job whatever happens, because the new message's id comes from the dead letter
and the job. The position is only saved behind what was handled, so a killed runner's last stretch is handled again,
and counted once: the counts are saved together with the position.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from millrace.engine.counters import flush
from millrace.engine.dead_letters import delete_dead_letter, mark_replays_in_doubt, replay
from millrace.engine.erase import finish_erasing
from millrace.engine.operate import purge_page
from millrace.engine.queue import Queue
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobs, AdminJobState
from millrace.model.errors import BodyLost, InvalidRequest, QueueFull, StoreUnavailable
from millrace.model.ids import random_token
from millrace.model.message import DeadLetter

PAGE = 50
LEASE_MS = 60_000
#: Progress is saved (and the lease kept) after so many dead letters or so much time, whichever comes first.
SAVE_EVERY = 25
SAVE_MS = 1_000
#: A slice ends so long before its time does: enough for the dead letter in hand and the last save.
MARGIN_MS = 3_000
KEPT_FAILURES = 10
log = logging.getLogger(__name__)
T = TypeVar("T")


class Interrupted(Exception):
    """The slice is over: its time, its lease or its job is."""


@dataclass(frozen=True, slots=True)
class Slice:
    """How a slice ended."""

    job: AdminJob
    more: bool = False  #: its time was up with work left: go on at once
    ended: bool = False  #: this slice was the job's last


def run_job_slice(
    jobs: AdminJobs,
    queue: Queue,
    job: AdminJob,
    left_ms: Callable[[], int],
    *,
    sleep: Callable[[float], None] = time.sleep,
    make: Callable[..., JobRun] | None = None,
) -> Slice:
    """Take the job on where it stands and go as far as `left_ms` allows.

    Does nothing where another runner holds the job or it has ended. Afterwards the job has ended, or its position
    is saved and its lease given back.
    """
    now = queue.now()
    wanted = replace(job, lease_token=random_token(queue.runtime.entropy), lease_until=now + LEASE_MS)
    seen = jobs.get(job.tenant, job.queue, job.id)
    held = jobs.take(wanted, now) if seen else None
    if seen is None or held is None:
        return Slice(seen or job)
    run = (make or JobRun)(jobs, queue, held, left_ms, sleep, in_doubt=bool(seen.lease_until))
    try:
        run.go()
    except Interrupted:
        pass
    except StoreUnavailable as error:
        log.warning("job interrupted", extra={"action": "job_interrupted", "job": job.id, "queue": job.queue})
        run.note(f"The store did not answer: {error}")
    return run.give_back()


class JobRun:
    """One runner at work on one job."""

    def __init__(
        self,
        jobs: AdminJobs,
        queue: Queue,
        job: AdminJob,
        left_ms: Callable[[], int],
        sleep: Callable[[float], None],
        *,
        in_doubt: bool,
    ) -> None:
        self._jobs = jobs
        self._queue = queue
        self._job = job
        self._left_ms = left_ms
        self._sleep = sleep
        self._in_doubt = in_doubt  #: the last runner died: it may have replayed what it did not mark
        self._next_at = 0.0
        self._unsaved = 0
        self._saved_at = queue.now()
        self._lost = False

    def go(self) -> None:
        self._check()
        if self._job.kind is AdminJobKind.PURGE_QUEUE:
            self._purge_queue()
        else:
            for dead_letter in self._dead_letters():
                self._handle(dead_letter)
                self._stepped(dead_letter.sk)
        self._end(AdminJobState.DONE)

    def _flush(self) -> None:
        flush(self._queue)

    def note(self, text: str) -> None:
        self._job = replace(self._job, note=text[:300])

    def give_back(self) -> Slice:
        """Save what was done, and let the next runner take over at once."""
        self._flush()
        saved = None
        if not self._lost:
            saved = self._jobs.save(replace(self._job, lease_until=0, updated_at=self._queue.now()))
        if saved is None:
            return Slice(self._job)
        return Slice(saved, more=saved.open and not saved.note, ended=not saved.open)

    # -- dead letters -------------------------------------------------------------------------------------------
    def _dead_letters(self) -> Iterator[DeadLetter]:
        """What the job is about, oldest first: those of one key failed in their order, and are replayed in it."""
        job, store = self._job, self._queue.store
        after: str | None = job.position or f"{job.only.failed_from:013d}"
        while after is not None:
            page = store.read_dead_letters(job.tenant, job.queue, after, f"{job.bound:013d}", PAGE)
            dead_letters = [dead_letter for dead_letter in page.items if job.only.matches(dead_letter)]
            if self._in_doubt and job.kind is AdminJobKind.REPLAY:
                dead_letters = mark_replays_in_doubt(self._queue, dead_letters, job.id)
            self._in_doubt = False
            yield from dead_letters
            after = page.next
            if after is not None:
                self._stepped(after)

    def _handle(self, dead_letter: DeadLetter) -> None:
        self._pace()
        if self._job.kind is AdminJobKind.PURGE_DEAD_LETTERS:
            gone = delete_dead_letter(self._queue, dead_letter)
            self._count(done=gone, skipped=not gone)
            return
        by_another = bool(dead_letter.replayed_at) and dead_letter.replay_job != self._job.id
        if by_another and not self._job.again:
            self._count(skipped=1)
            return
        job = self._job.id
        name = dead_letter.sk.replace("#", ".")
        if self._when_there_is_room(name, lambda: replay(self._queue, dead_letter, job)) is not None:
            self._count(done=1)

    def _when_there_is_room(self, name: str, enqueue: Callable[[], T]) -> T | None:
        """What it gives, once the queue has room; None, counted as failed, where it is refused for good."""
        while True:
            try:
                made = enqueue()
            except QueueFull as full:
                self.note("The queue is full: waiting for room.")
                self._wait(full.retry_after * 1000)
            except (InvalidRequest, BodyLost) as error:
                self._failed(name, error)
                return None
            else:
                self.note("")
                return made

    def _failed(self, name: str, error: Exception) -> None:
        lines = self._job.failures.splitlines()
        if len(lines) < KEPT_FAILURES:
            lines.append(f"{name}: {' '.join(str(error).split())[:200] or type(error).__name__}")
        self._job = replace(self._job, failures="\n".join(lines))
        self._count(failed=1)

    # -- messages -----------------------------------------------------------------------------------------------
    def _take_in_hand(self, ids: list[str]) -> None:
        """Keep the ids of what is about to be erased in two steps, for whoever goes on after a crash."""
        if ids:
            self._job = replace(self._job, in_hand=" ".join(ids))
            self._save()

    def _purge_queue(self) -> None:
        for message_id in self._job.in_hand.split():
            finish_erasing(self._queue, message_id)
        position: str | None = self._job.position or None
        while True:
            page = purge_page(self._queue, position, before=self._take_in_hand)
            self._count(done=page.removed, skipped=page.held)
            self._job = replace(self._job, in_hand="")
            if page.next is None:
                return
            position = page.next
            self._stepped(position)

    # -- progress -----------------------------------------------------------------------------------------------
    def _count(self, *, done: int = 0, skipped: int = 0, failed: int = 0) -> None:
        job = self._job
        self._job = replace(job, done=job.done + done, skipped=job.skipped + skipped, failed=job.failed + failed)

    def _stepped(self, position: str) -> None:
        """Everything up to `position` is handled."""
        self._job = replace(self._job, position=position)
        self._unsaved += 1
        if self._unsaved >= SAVE_EVERY or self._queue.now() - self._saved_at >= SAVE_MS:
            self._save()
        self._check()

    def _save(self) -> None:
        now = self._queue.now()
        saved = self._jobs.save(replace(self._job, lease_until=now + LEASE_MS, updated_at=now))
        if saved is None:
            self._lost = True
            raise Interrupted
        self._flush()
        self._job, self._unsaved, self._saved_at = saved, 0, now

    def _check(self) -> None:
        if self._job.cancel_asked:
            self._end(AdminJobState.CANCELLED)
        if self._left_ms() <= MARGIN_MS:
            raise Interrupted

    def _end(self, state: AdminJobState) -> None:
        self._job = replace(self._job, state=state, finished_at=self._queue.now(), note="")
        raise Interrupted

    def _pace(self) -> None:
        """Hold the job's rate: dead letters start one interval apart, and lost time is not made up for."""
        if self._job.rate:
            self._wait(self._next_at - self._queue.now())
            self._next_at = max(self._next_at, float(self._queue.now())) + 1000 / self._job.rate

    def _wait(self, millis: float) -> None:
        """Wait in steps short enough to keep the lease, hear a cancel and end in time."""
        until = self._queue.now() + millis
        while (left := until - self._queue.now()) > 0:
            room = self._left_ms() - MARGIN_MS
            if room <= 0:
                raise Interrupted
            self._sleep(min(left, room, SAVE_MS) / 1000)
            if self._queue.now() - self._saved_at >= SAVE_MS:
                self._save()
                self._check()
