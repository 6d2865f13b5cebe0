"""What all rules share: the world, its reference, the claims ever given out."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from millrace.engine.claim import Claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus
from millrace.model.errors import MillraceError, QueueFull
from millrace.model.message import DeadLetter, Draft, Entry
from millrace.model.queue_spec import QueueSpec
from tests.proofs.state_machine.reference import Life
from tests.proofs.state_machine.world import DEPTH, PROCESSES, SHAPES, MakeStore, World

processes = st.integers(0, PROCESSES - 1)
picks = st.integers(0, 30)


@dataclass
class Hand:
    """A claim as its worker holds it: perhaps long stale."""

    claim: Claim
    entry: Entry
    life: Life

    @property
    def fresh(self) -> bool:
        return self.life.end is None and self.life.holder == self.entry.token


class Driver(RuleBasedStateMachine):
    """The machine without its rules. Subclasses say over which store."""

    make_store: MakeStore
    world: World

    @initialize(spec=st.sampled_from(SHAPES), seed=st.integers(0, 9_999))
    def begin(self, spec: QueueSpec, seed: int) -> None:
        self.world = World(type(self).make_store, spec, seed)
        self.model = self.world.reference
        self.hands: list[Hand] = []
        self.dead_letters_forgotten: set[str] = set()
        self.dead_letters_replayed: set[str] = set()
        self.paused = False
        self.pause_known_at = [0] * PROCESSES  #: a process sees a pause by another one within a second
        self.sent = 0

    def dead_letters(self) -> list[DeadLetter]:
        return list(list_dead_letters(self.world.queues[0], limit=500).items)

    def depth(self) -> int:
        """As the counter has it."""
        return self.world.store.get_queue_state(self.world.tenant, self.world.spec.name).depth

    def accepted(self, process: int, draft: Draft, answer: Receipt) -> Life:
        """A new message begins its life in the reference."""
        spec, now = self.world.spec, self.world.now
        due = draft.not_before if draft.not_before and draft.not_before > now else 0
        life = Life(
            answer.message_id,
            number=len(self.model.lives),
            process=self.world.numbers[process],
            accepted_at=now,
            expires_at=now + spec.retention.max_age_seconds * 1000,
            window_until=now + spec.idempotency.window_seconds * 1000,
            body=draft.body,
            key=draft.key,
            priority=spec.priority if draft.priority is None else int(draft.priority),
            project=draft.project or "",
            labels=draft.labels or (),
            due=due,
            waited=due > 0,
        )
        assert answer.status is life.status(now)
        self.model.accept(life)
        return life

    def refused(self, process: int, answer: MillraceError) -> None:
        assert isinstance(answer, QueueFull), answer
        full = self.depth() >= DEPTH
        assert full or self.world.now < self.world.full_until[process], "refused though there is room"
        if full:
            self.world.full_until[process] = self.world.now + 100

    def buried(self, now: int) -> int:
        """Take over what the queue buried by itself: only what was doomed, each for the right reason."""
        count = 0
        dead_letters = {dead_letter.message.nonce: dead_letter for dead_letter in self.dead_letters()}
        for dead_letter in dead_letters.values():
            life = self.model.newest[dead_letter.message.id]
            if life.end is None and dead_letter.failed_at == now and dead_letter.message.body.data == life.body:
                assert self.model.doomed(life, now), f"{life} was buried and was not doomed"
                assert dead_letter.reason == ("expired" if life.expires_at <= now else "exhausted")
                self.model.claim(life, now, 0, "")
                life.finish(MessageStatus.DEAD, life.version)
                assert dead_letter.attempts == life.attempts
                count += 1
        return count
