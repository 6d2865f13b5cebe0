"""Senders: one message or many, new ones and repeats, delayed and with priorities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.status import MessageStatus
from millrace.model.errors import MillraceError, QueueFull
from millrace.model.message import Draft
from tests.proofs.state_machine.driving import Driver, processes
from tests.proofs.state_machine.reference import Life


@dataclass(frozen=True)
class Wish:
    """What a sender wants, before the queue's kind decides which of it may be said."""

    same: str | None
    key: str
    priority: int | None
    delay: int
    project: str | None
    labels: tuple[str, ...]


wishes = st.builds(
    Wish,
    same=st.sampled_from([None, None, "a", "b"]),
    key=st.sampled_from(["k1", "k1", "k2", "k3"]),
    priority=st.sampled_from([None, None, 0, 100, 9_999]),
    delay=st.sampled_from([0, 0, 0, 1, 1_500, 45_000]),
    project=st.sampled_from([None, "blue"]),
    labels=st.sampled_from([(), ("x",), ("x", "y")]),
)


class Senders(Driver):
    """Enqueue, with and without an idempotency key."""

    @rule(process=processes, wish=wishes)
    def send(self, process: int, wish: Wish) -> None:
        draft = self._draft(wish)
        try:
            answer: Receipt | MillraceError = enqueue(self.world.queues[process], draft)
        except QueueFull as error:
            answer = error
        self._sent(process, [draft], [answer])

    @rule(process=processes, many=st.lists(wishes, min_size=2, max_size=6))
    def send_many(self, process: int, many: list[Wish]) -> None:
        drafts = [self._draft(wish) for wish in many]
        self._sent(process, drafts, enqueue_all(self.world.queues[process], drafts))

    @rule(process=processes, wish=wishes, times=st.integers(2, 4))
    def send_alike(self, process: int, wish: Wish, times: int) -> None:
        for _ in range(times):
            self.send(process, replace(wish, same=None))

    def _draft(self, wish: Wish) -> Draft:
        spec, self.sent = self.world.spec, self.sent + 1
        return Draft(
            b"%d" % self.sent,
            idempotency_key=wish.same,
            # By key, not by id: an id has the tenant in it, which is another one in each run of the same steps.
            key=wish.key if spec.keyed or spec.shards > 1 else "",
            priority=None if spec.ordering.ordered else wish.priority,
            not_before=self.world.now + wish.delay if wish.delay else None,
            project=wish.project,
            labels=wish.labels,
        )

    def _sent(self, process: int, drafts: Sequence[Draft], answers: Sequence[Receipt | MillraceError]) -> None:
        now = self.world.now
        for draft, answer in zip(drafts, answers, strict=True):
            if isinstance(answer, MillraceError):
                self.refused(process, answer)
                continue
            known = self.model.repeat_of(answer.message_id, now)
            assert answer.duplicate == (known is not None), f"{answer} where {known} was known"
            if known:
                self._check_repeat(known, answer)
            else:
                self.accepted(process, draft, answer)

    def _check_repeat(self, known: Life, answer: Receipt) -> None:
        assert answer.status is known.status(self.world.now)
        cached = known.end is MessageStatus.DONE and self.world.spec.idempotency.cache_result
        assert answer.result == ((known.result or None) if cached else None)
