"""Replaying what was received in a window: a job over dead letters and the whole queue table, in slices.

    dead:POSITION   dead letters of the window, in the order in which they failed
    scan:POSITION   a scan for the window's messages; each that is done by the engine's own rule is replayed

No index leads to messages by their time, so all of the queue table is read, at a bounded pace; bodies only of what is
replayed. A new message's id comes from the one that has ended and the job, and is never free again: a stretch that a
killed runner left is handled again, and counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millrace.admin.run_job import PAGE, JobRun
from millrace.admission.replays import replay_message
from millrace.definitions import QueueDefinition
from millrace.engine.counters import flush
from millrace.engine.dead_letters import note_replay
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, statuses_of
from millrace.model.admin_jobs import AdminJob, AdminJobState
from millrace.model.message import DeadLetter, Message
from millrace.model.replay_windows import ReplayOf, ReplayWindow, WindowSample, read_found, read_window
from millrace.stores.scanned import ScanFilter, ScannedMessage

#: Items that a page of the scan looks at; a second reads pages of this many read units.
SCAN_PAGE, UNITS_PER_SECOND = 1_000, 1_000
#: To find out how a message stands: its place, its entry, and its place again.
LOOK_UNITS = 3
#: Messages whose status is asked for together.
TOGETHER = 100
#: A worker's clock may be behind that of whoever accepted a message.
SKEW_MS = 300_000


@dataclass(frozen=True, slots=True)
class WindowReach:
    """Where a replay goes to."""

    to: Queue
    definition: QueueDefinition


class WindowRun(JobRun):
    """One runner at work on one window."""

    reach: WindowReach

    def go(self) -> None:
        self._check()
        # What it enqueues is received after its window, whatever the clock of the API said: it never meets its own.
        self._wait(self._job.created_at - self._queue.now())
        phase, _, rest = self._job.position.partition(":")
        if phase != "scan" and self._window.of is not ReplayOf.DONE:
            self._dead_letters_again(rest)
        if self._window.of is not ReplayOf.DEAD:
            self._scan(rest if phase == "scan" else "")
        self._end(AdminJobState.DONE)

    @property
    def _window(self) -> ReplayWindow:
        """The job sees only what was received before it was started."""
        window = read_window(self._job.selects)
        return replace(window, received_before=min(window.received_before, self._job.created_at))

    def _flush(self) -> None:
        flush(self._queue)
        flush(self.reach.to)

    # -- dead letters -------------------------------------------------------------------------------------------
    def _dead_letters_again(self, rest: str) -> None:
        job, window, store = self._job, self._window, self._queue.store
        earliest = max(job.only.failed_from, window.received_from - SKEW_MS)
        after: str | None = rest or f"{earliest:013d}"
        while after is not None:
            page = store.read_dead_letters(job.tenant, job.queue, after, f"{job.bound:013d}", PAGE)
            for dead_letter in page.items:
                if window.holds(dead_letter.message.received_at) and job.only.matches(dead_letter):
                    self._meet_dead(dead_letter)
                self._stepped(f"dead:{dead_letter.sk}")
            after = page.next
            if after is not None:
                self._stepped(f"dead:{after}")

    def _meet_dead(self, dead_letter: DeadLetter) -> None:
        message, job = dead_letter.message, self._job
        by_another = bool(dead_letter.replayed_at) and dead_letter.replay_job != job.id
        if by_another and not job.again:
            self._met(MessageStatus.DEAD)
            self._count(skipped=1)
        elif dead_letter.replay_job == job.id or job.dry_run:
            self._chosen(MessageStatus.DEAD, message.id, message.received_at)
            self._count(done=1)
        else:
            self._replay(MessageStatus.DEAD, message, dead_letter)

    # -- messages -----------------------------------------------------------------------------------------------
    def _scan(self, after: str) -> None:
        job, window = self._job, self._window
        only = ScanFilter(job.queue, window.received_from, window.received_before)
        position: str | None = after
        while position is not None:
            page = self._queue.store.scan_messages(job.tenant, position, SCAN_PAGE, only)
            wanted = [one for one in page.items if _matches(job, one)]
            units = page.units + LOOK_UNITS * len(wanted)
            self._job = replace(self._job, found=read_found(self._job.found).charged(units).written())
            for start in range(0, len(wanted), TOGETHER):
                self._meet_all(wanted[start : start + TOGETHER])
            position = page.next
            if position is not None:
                self._stepped(f"scan:{position}")
                self._wait(units / UNITS_PER_SECOND * 1000)

    def _meet_all(self, messages: Sequence[ScannedMessage]) -> None:
        by_id = {one.id: one for one in messages}
        statuses = statuses_of(self._queue.store, by_id, self._queue.now())
        for one in messages:
            status = statuses[one.id]
            if status is MessageStatus.DONE:
                self._meet_done(one)
            elif status is not MessageStatus.DEAD or self._window.of is ReplayOf.DONE:
                self._met(status)
            if not self._job.dry_run:
                self._stepped(f"scan:{one.position}")
        if self._job.dry_run:
            self._stepped(f"scan:{messages[-1].position}")

    def _meet_done(self, one: ScannedMessage) -> None:
        if self._job.dry_run:
            self._chosen(MessageStatus.DONE, one.id, one.received_at)
            self._count(done=1)
            return
        message = self._queue.store.get_messages([one.id]).get(one.id)
        if message is None or message.erased or message.nonce != one.nonce:
            self._met(MessageStatus.PURGED)
            self._count(skipped=1)
            return
        self._replay(MessageStatus.DONE, message)

    # -- both ---------------------------------------------------------------------------------------------------
    def _replay(self, status: MessageStatus, message: Message, dead_letter: DeadLetter | None = None) -> None:
        self._pace()
        to, definition, job = self.reach.to, self.reach.definition, self._job.id
        made = self._when_there_is_room(message.id, lambda: replay_message(to, definition, message, job, dead_letter))
        if made is None:
            self._met(status)
            return
        receipt, filtered = made
        if dead_letter is not None and not filtered:
            marked = replace(dead_letter, replayed_at=to.now(), replayed_as=receipt.message_id, replay_job=job)
            note_replay(self._queue, marked)
        self._chosen(status, message.id, message.received_at)
        self._count(done=not filtered, skipped=filtered)

    def _met(self, status: MessageStatus) -> None:
        self._job = replace(self._job, found=read_found(self._job.found).met(status.value).written())

    def _chosen(self, status: MessageStatus, message_id: str, received_at: int) -> None:
        found = read_found(self._job.found).met(status.value)
        found = found.chosen(WindowSample(message_id, status.value, received_at))
        self._job = replace(self._job, found=found.written())


def _matches(job: AdminJob, one: ScannedMessage) -> bool:
    """What a filter may ask of a message that is done."""
    only = job.only
    asked = ((only.project, one.project), (only.key, one.key), (only.correlation_id, one.correlation_id))
    return all(wanted is None or wanted == has for wanted, has in asked)
