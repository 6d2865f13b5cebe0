"""Workers: claim, finish in every way, with fresh claims and stale ones; the workflow document."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from millrace.engine.claim import Claim, body_of, claim
from millrace.engine.end_in_order import end_in_order
from millrace.engine.finish import RunFailure, ack, extend, follow_up, nack, reject, release, snooze
from millrace.engine.poll import Filter
from millrace.engine.status import MessageStatus
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.errors import MillraceError, StaleClaim, StaleState
from millrace.model.message import Entry
from tests.proofs.state_machine.driving import Driver, Hand, picks, processes
from tests.proofs.state_machine.reference import Life
from tests.proofs.state_machine.world import LEASE_MS

BROKEN = RunFailure("ValueError", "broken")
delays = st.sampled_from([0, 1, 1_000, 60_000, 4_000_000])
filters = st.sampled_from([Filter()] * 4 + [Filter(project="blue"), Filter(labels=("x",)), Filter(max_priority=50)])
finishes = st.sampled_from(["done", "fail", "write, done"])
held = precondition(lambda self: bool(self.hands))


class Workers(Driver):
    """Two workers, one in each process, that may use any claim ever given."""

    @rule(process=processes, limit=st.sampled_from([2, 3, 10]), only=filters)
    def take_some(self, process: int, limit: int, only: Filter) -> None:
        self.take(process, limit, only)

    @rule(process=processes, times=st.integers(1, 4))
    def take_one_by_one(self, process: int, times: int) -> None:
        for _ in range(times):
            self.take(process, 1, Filter())

    def take(self, process: int, limit: int, only: Filter) -> None:
        now, queue = self.world.now, self.world.queues[process]
        claimed = claim(queue, owner=f"worker {process}", limit=limit, only=only)
        buried = self.buried(now)
        lives = [self.model.newest[held.entry.id] for held in claimed.claims]
        if lives or not self._may_be_paused(process):
            assert not self._must_be_paused(process), "a paused queue handed something out"
            self.model.check_started(lives, limit, buried, now, only)
        if not lives and not buried and not self._may_be_paused(process):
            expected = self.model.next_start(now, only)
            seen = claimed.next_at
            assert expected is None or (seen is not None and seen <= expected), f"asks again at {seen}, not {expected}"
        for held, life in zip(claimed.claims, lives, strict=True):
            self._took(taken=held, life=life, now=now)
            assert body_of(queue, held) == life.body

    def _took(self, taken: Claim, life: Life, now: int) -> None:
        assert (taken.lost is not None) == life.lost(now)
        entry = taken.entry
        self.model.claim(life, now, LEASE_MS, entry.token)
        assert taken.may_start(now)
        assert (entry.version, entry.attempts, entry.until) == (life.version, life.attempts, life.until)
        self.hands.append(Hand(taken, entry, life))

    def _may_be_paused(self, process: int) -> bool:
        return self.paused or self.world.now < self.pause_known_at[process]

    def _must_be_paused(self, process: int) -> bool:
        return self.paused and self.world.now >= self.pause_known_at[process]

    def _hand(self, pick: int) -> Hand:
        return self.hands[-1 - pick % len(self.hands)]

    @rule(process=processes, finish=finishes)
    def work_one_off(self, process: int, finish: str) -> None:
        before = len(self.hands)
        self.take(process, 1, Filter())
        if len(self.hands) > before:
            if "write" in finish:
                self.write_state(process, 0, b"written", 0)
            if "done" in finish:
                self.done(process, [0], results=True)
            else:
                self.fail(process, 0, delay=0)

    @held
    @rule(process=processes, chosen=st.lists(picks, min_size=1, max_size=4), results=st.booleans())
    def done_with_some(self, process: int, chosen: list[int], results: bool) -> None:
        self.done(process, chosen, results)

    def done(self, process: int, chosen: list[int], results: bool) -> None:
        hands = list({hand.entry.place: hand for hand in map(self._hand, chosen)}.values())
        snapshots = [b"result %d" % n for n in range(len(hands))] if results else []
        errors = ack(self.world.queues[process], [hand.entry for hand in hands], snapshots)
        for number, (hand, error) in enumerate(zip(hands, errors, strict=True)):
            if hand.fresh:
                assert error is None, error
                hand.life.finish(MessageStatus.DONE, hand.entry.version, snapshots[number] if results else b"")
            else:
                self._check_late_ack(hand, error)

    @held
    @rule(process=processes, chosen=st.lists(picks, min_size=1, max_size=4))
    def done_in_order(self, process: int, chosen: list[int]) -> None:
        """As a batch of a fifo queue ends: the first ones, up to one whose claim was lost."""
        queue = self.world.queues[process]
        hands = list({hand.entry.place: hand for hand in map(self._hand, chosen)}.values())
        ended, problem = end_in_order(queue, [hand.entry for hand in hands], [b"r"] * len(hands))
        follow_up(queue, [one for one in ended if one is not None])
        assert (len(ended) < len(hands)) == (problem is not None)
        for number, hand in enumerate(hands[: len(ended) + 1]):
            if not hand.fresh:
                self._check_late_ack(hand, problem if number == len(ended) else None)
                continue
            assert number < len(ended), problem
            hand.life.finish(MessageStatus.DONE, hand.entry.version, b"r")

    def _check_late_ack(self, hand: Hand, error: MillraceError | None) -> None:
        """A repeat of the ack that ended the message succeeds again; any other claim is stale."""
        mine = hand.life.end is MessageStatus.DONE and hand.life.ended_by == hand.entry.version
        cached = self.world.spec.idempotency.cache_result and self.model.newest[hand.life.id] is hand.life
        kept = cached and hand.life.result
        if mine and kept:
            assert error is None, error
        elif mine or (hand.life.end is MessageStatus.DONE and not kept and hand.entry.until > self.world.now):
            assert error is None or isinstance(error, StaleClaim)
        else:
            assert isinstance(error, StaleClaim), f"a stale ack was answered {error!r}"

    @held
    @rule(process=processes, pick=picks, delay=st.none() | delays)
    def fail(self, process: int, pick: int, delay: int | None) -> None:
        hand, now = self._hand(pick), self.world.now
        arguments = (self.world.queues[process], hand.entry, hand.claim.message, BROKEN)
        if not hand.fresh:
            return self._stale(lambda: nack(*arguments, delay_ms=delay, lost=hand.claim.lost))
        retry = nack(*arguments, delay_ms=delay, lost=hand.claim.lost)
        assert (retry is not None) == self.model.fail(hand.life, now)
        if retry is not None:
            first, last = (now + delay, now + delay) if delay is not None else self.model.backoff(hand.life, now)
            assert min(first, hand.life.expires_at) <= retry.due <= last
            self.model.wait(hand.life, retry.due)
        return None

    def _stale(self, verb: Callable[[], object]) -> None:
        try:
            verb()
        except StaleClaim:
            return
        raise AssertionError("a stale token changed something")

    @held
    @rule(process=processes, pick=picks)
    def refuse(self, process: int, pick: int) -> None:
        hand = self._hand(pick)
        arguments = (self.world.queues[process], hand.entry, hand.claim.message, BROKEN, hand.claim.lost)
        if not hand.fresh:
            return self._stale(lambda: reject(*arguments))
        reject(*arguments)
        hand.life.attempts += 1
        hand.life.finish(MessageStatus.DEAD, hand.entry.version)
        return None

    @held
    @rule(process=processes, pick=picks, delay=delays)
    def postpone(self, process: int, pick: int, delay: int) -> None:
        hand, until = self._hand(pick), self.world.now + delay
        if not hand.fresh:
            return self._stale(lambda: snooze(self.world.queues[process], hand.entry, until))
        snooze(self.world.queues[process], hand.entry, until)
        self.model.wait(hand.life, until)
        return None

    @held
    @rule(process=processes, chosen=st.lists(picks, min_size=1, max_size=3))
    def give_back(self, process: int, chosen: list[int]) -> None:
        hands = list({hand.entry.place: hand for hand in map(self._hand, chosen)}.values())
        errors = release(self.world.queues[process], [hand.entry for hand in hands])
        for hand, error in zip(hands, errors, strict=True):
            assert (error is None) if hand.fresh else isinstance(error, StaleClaim)
            if hand.fresh:
                hand.life.let_go()

    @held
    @rule(process=processes, chosen=st.lists(picks, min_size=1, max_size=3), lease=st.sampled_from([None, 1, 90_000]))
    def prolong(self, process: int, chosen: list[int], lease: int | None) -> None:
        hands = list({hand.entry.place: hand for hand in map(self._hand, chosen)}.values())
        answers = extend(self.world.queues[process], [hand.entry for hand in hands], lease)
        for hand, answer in zip(hands, answers, strict=True):
            if not hand.fresh:
                assert isinstance(answer, StaleClaim)
                continue
            assert isinstance(answer, Entry)
            hand.entry, hand.life.until = answer, self.world.now + (lease or LEASE_MS)
            assert answer.until == hand.life.until

    @held
    @rule(process=processes, pick=picks, content=st.binary(max_size=8), behind=st.sampled_from([0, 0, 0, 1]))
    def write_state(self, process: int, pick: int, content: bytes, behind: int) -> None:
        hand, queue = self._hand(pick), self.world.queues[process]
        life = hand.life
        if not (hand.fresh and life.live(self.world.now)):
            return self._stale(lambda: write_workflow_state(queue, hand.entry, content, 0))
        found = read_workflow_state(queue, hand.entry)
        assert (found.content, found.version) == life.document
        version = max(0, life.document[1] - behind)
        repeated = life.document == (content, version + 1)
        try:
            written = write_workflow_state(queue, hand.entry, content, version)
        except StaleState as error:
            refused_for = error.current
        else:
            assert version == life.document[1] or repeated
            life.document = (content, written.version)
            return None
        assert version != life.document[1] == refused_for
        assert not repeated
        return None
