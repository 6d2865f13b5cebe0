"""Running an erasure: a job over all of a tenant's messages, dead letters and audit events, in slices.

    messages:POSITION   a scan of the queue table, or the ids that are known; each message wherever it is in its life
    dead:NUMBER:AFTER   dead letters that outlived their message, of each queue
    audit:BEFORE        audit events that name what is to be forgotten

Ids are saved as in hand before they are erased: what a killed runner left of them is finished, and counted once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from millrace.admin.run_job import JobRun
from millrace.engine.counters import flush
from millrace.engine.dead_letters import delete_dead_letter
from millrace.engine.forget import forget_message
from millrace.engine.queue import Queue
from millrace.model.admin_jobs import AdminJobState
from millrace.model.audit import AuditLog
from millrace.model.erasures import EraseBy, Selection, read_selection
from millrace.model.errors import MessageHeld, NotFound
from millrace.model.keys import END
from millrace.model.message import DeadLetter, Message

#: Items that a page of the scan looks at; a second reads pages of this many read units.
SCAN_PAGE, UNITS_PER_SECOND = 1_000, 1_000
IN_HAND = 25
DEAD_PAGE = 50
AUDIT_PAGE = 100
FIRST, LAST = "0", "9" * 13
ERASED_DETAIL = "(erased)"
#: Replays of replays that are followed from a message.
REPLAYS = 100


@dataclass(frozen=True, slots=True)
class ErasureReach:
    """What a runner of an erasure needs to know of the deployment."""

    queue: Callable[[str], Queue]  #: by its name, also one that is defined no more
    queues: Sequence[str]
    ids: Callable[[str, str], list[str]]  #: of a queue and an idempotency key
    audit_log: AuditLog


class EraseRun(JobRun):
    """One runner at work on one erasure."""

    reach: ErasureReach

    def go(self) -> None:
        self._check()
        for message_id in self._job.in_hand.split():
            self._forget(message_id)
        self._job = replace(self._job, in_hand="")
        phase, _, rest = self._job.position.partition(":")
        if phase in ("", "messages"):
            self._messages(rest)
        if phase != "audit":
            self._dead_letters_left(rest if phase == "dead" else "")
        self._audit(rest if phase == "audit" else LAST)
        self._job = replace(self._job, selects=self._selection.hidden().written())
        self._end(AdminJobState.DONE)

    @property
    def _selection(self) -> Selection:
        return read_selection(self._job.selects)

    def _flush(self) -> None:
        for name in self._names():
            flush(self.reach.queue(name))

    def _names(self) -> Sequence[str]:
        return [self._selection.queue] if self._selection.queue else self.reach.queues

    # -- messages -----------------------------------------------------------------------------------------------
    def _messages(self, after: str) -> None:
        selection, store = self._selection, self._queue.store
        if not selection.scans:
            self._forget_all(self._known_ids(selection))
            return
        position: str | None = after
        while position is not None:
            page = store.scan_messages(self._job.tenant, position, SCAN_PAGE)
            self._forget_all([owner.id for owner in page.items if selection.matches(owner)])
            position = page.next
            if position is not None:
                self._stepped(f"messages:{position}")
                self._wait(page.units / UNITS_PER_SECOND * 1000)

    def _known_ids(self, selection: Selection) -> list[str]:
        """Of the message that is named, and of those that it was replayed as."""
        found = [selection.value]
        if selection.by is EraseBy.IDEMPOTENCY_KEY:
            found = [one for name in self._names() for one in self.reach.ids(name, selection.value)]
        for message_id in found:  # it grows
            if len(found) < REPLAYS:
                found += [one for one in self._replays(message_id) if one not in found]
        return found

    def _replays(self, message_id: str) -> Iterator[str]:
        records = self._queue.store.get_records(message_id)
        message, location = records.message, records.location
        if message and self._is_meant(message) and location and location.dead_letter:
            dead = self._queue.store.get_dead_letter(message.tenant, message.queue, location.dead_letter)
            if dead and dead.replayed_as:
                yield dead.replayed_as

    def _forget_all(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), IN_HAND):
            wanted = [one for one in ids[start : start + IN_HAND] if self._is_left(one)]
            if self._job.dry_run:
                self._count(done=len(wanted))
                continue
            if wanted:
                self._take_in_hand(wanted)
            for message_id in wanted:
                self._forget(message_id)
            self._job = replace(self._job, in_hand="")
            self._check()

    def _is_left(self, message_id: str) -> bool:
        """It is meant, and something of it is there."""
        message = self._queue.store.get_records(message_id).message
        return message is not None and self._is_meant(message) and (not message.erased or bool(message.body.blob))

    def _is_meant(self, message: Message) -> bool:
        meant = message.erased or self._selection.matches(message)
        return message.tenant == self._job.tenant and meant

    def _forget(self, message_id: str) -> None:
        message = self._queue.store.get_records(message_id).message
        if message is None or message.tenant != self._job.tenant:
            self._count(skipped=1)
            return
        try:
            forget_message(self.reach.queue(message.queue), message_id)
        except NotFound:
            self._count(skipped=1)
        except MessageHeld as error:
            self._failed(message_id, error)
        else:
            self._count(done=1)

    # -- dead letters -------------------------------------------------------------------------------------------
    def _dead_letters_left(self, rest: str) -> None:
        number, _, after = (rest or f"0:{FIRST}").partition(":")
        for at, name in enumerate(self._names()):
            if at < int(number):
                continue
            position: str | None = after if at == int(number) else FIRST
            while position is not None:
                page = self._queue.store.read_dead_letters(self._job.tenant, name, position, LAST + END, DEAD_PAGE)
                self._forget_dead(name, [one for one in page.items if self._selection.matches_dead_letter(one)])
                position = page.next
                self._stepped(f"dead:{at}:{position}" if position is not None else f"dead:{at + 1}:{FIRST}")

    def _forget_dead(self, name: str, dead_letters: Sequence[DeadLetter]) -> None:
        if self._job.dry_run and dead_letters:
            counted = self._queue.store.get_messages([one.message.id for one in dead_letters])
            nonces = {message.nonce for message in counted.values()}
            self._count(done=sum(one.message.nonce not in nonces for one in dead_letters))
            return
        for dead_letter in dead_letters:
            gone = delete_dead_letter(self.reach.queue(name), dead_letter)
            self._count(done=gone, skipped=not gone)

    # -- the audit log ------------------------------------------------------------------------------------------
    def _audit(self, before: str) -> None:
        """Events stay: who did what, and when. Only what names somebody goes out of them."""
        named = json.dumps(self._selection.named, ensure_ascii=False)
        position: str | None = before if self._selection.named and not self._job.dry_run else None
        while position is not None:
            page = self.reach.audit_log.read(self._job.tenant, FIRST, position, AUDIT_PAGE)
            for event in page.items:
                if named in event.detail:
                    self.reach.audit_log.redact(replace(event, detail=ERASED_DETAIL))
            position = page.next
            if position is not None:
                self._stepped(f"audit:{position}")
