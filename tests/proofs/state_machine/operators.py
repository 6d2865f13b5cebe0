"""Operators and time: pause, purge, break a claim, replay, forget, sweep, wait; processes that die."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from millrace.engine.counters import flush
from millrace.engine.dead_letters import purge_dead_letter, replay
from millrace.engine.enqueue import Receipt
from millrace.engine.operate import break_claim, pause, purge_page, resume
from millrace.engine.status import MessageStatus, status
from millrace.engine.sweep import sweep
from millrace.model.errors import NotFound, QueueFull
from millrace.model.message import DeadLetter, Draft
from tests.proofs.state_machine.driving import Driver, picks, processes
from tests.proofs.state_machine.world import AGE_MS, LEASE_MS, PROCESSES, WINDOW_MS

times = st.sampled_from([1, 100, 1_000, LEASE_MS - 1, LEASE_MS, 61_000, 180_000, WINDOW_MS, AGE_MS])


class Operators(Driver):
    """Everything that is done to a queue from outside."""

    @rule(process=processes, on=st.sampled_from([False, False, True]))
    def stop_or_go(self, process: int, on: bool) -> None:
        state = (pause if on else resume)(self.world.queues[process], "operator")
        assert bool(state.paused_at) == on
        if on != self.paused:
            self.pause_known_at = [self.world.now + 1_000] * PROCESSES
        self.pause_known_at[process] = min(self.pause_known_at[process], self.world.now)
        self.paused = on

    @rule(process=processes)
    def purge(self, process: int) -> None:
        now, position, removed = self.world.now, None, 0
        while True:
            page = purge_page(self.world.queues[process], position)
            removed += page.removed
            if (position := page.next) is None:
                break
        free = [life for life in self.model.unfinished() if not life.live(now)]
        assert removed == len(free)
        for life in free:
            life.finish(MessageStatus.PURGED, life.version)

    @precondition(lambda self: bool(self.hands))
    @rule(process=processes, pick=picks)
    def interrupt(self, process: int, pick: int) -> None:
        life, queue = self.hands[-1 - pick % len(self.hands)].life, self.world.queues[process]
        newest = self.model.newest[life.id]
        try:
            break_claim(queue, life.id)
        except NotFound:
            assert not newest.live(self.world.now)
            return
        assert newest.live(self.world.now)
        newest.let_go()

    @rule(process=processes, pick=picks, job=st.sampled_from(["j1", "j2"]))
    def replay_one(self, process: int, pick: int, job: str) -> None:
        dead_letters = self.dead_letters()
        if not dead_letters:
            return None
        dead_letter = dead_letters[pick % len(dead_letters)]
        try:
            receipt = replay(self.world.queues[process], dead_letter, job)
        except QueueFull as error:
            return self.refused(process, error)
        if dead_letter.replay_job == job:
            assert receipt.duplicate
            assert receipt.message_id == dead_letter.replayed_as
            return None
        flush(self.world.queues[process])  # as an operator's request and a job's slice do at their end
        self.dead_letters_replayed.add(dead_letter.sk)
        known = self.model.repeat_of(receipt.message_id, self.world.now)
        assert receipt.duplicate == (known is not None)
        if known is None:
            self._replayed(process, dead_letter, receipt)
        return None

    def _replayed(self, process: int, dead_letter: DeadLetter, receipt: Receipt) -> None:
        draft = Draft(
            dead_letter.message.body.data,
            key=dead_letter.key,
            priority=dead_letter.priority,
            project=dead_letter.project,
            labels=dead_letter.labels,
        )
        life = self.accepted(process, draft, receipt)
        assert receipt.correlation_id == dead_letter.message.correlation_id
        assert status(self.world.queues[process], life.id).message.origin == dead_letter.message.id

    @rule(process=processes, pick=picks)
    def forget_dead_letter(self, process: int, pick: int) -> None:
        dead_letters = self.dead_letters()
        if dead_letters:
            dead_letter = dead_letters[pick % len(dead_letters)]
            purge_dead_letter(self.world.queues[process], dead_letter.sk)
            self.dead_letters_forgotten.add(dead_letter.sk)
            newest = self.model.newest[dead_letter.message.id]
            if newest.accepted_at == dead_letter.message.received_at:
                newest.erased = True

    @rule(process=processes)
    def sweep_up(self, process: int) -> None:
        now = self.world.now
        doomed = self.model.to_be_swept(now)
        sweep(self.world.queues[process])
        self.buried(now)
        assert all(life.end is MessageStatus.DEAD for life in doomed), "the sweep left something doomed"

    @rule(millis=times)
    def wait(self, millis: int) -> None:
        self.world.clock.forward(millis)

    @rule(process=processes)
    def die(self, process: int) -> None:
        self.world.kill(process)
        self.pause_known_at[process] = self.world.now
