"""Of a key so many are in hand at once as its queue allows, however its messages come, and no key hides another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine import places
from millrace.engine.claim import Claim, body_of, claim
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import ack, nack, snooze
from millrace.engine.places import FULL_MS, LATE, keep_within
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.model.errors import InvalidField, StoreUnavailable
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.stores.interface import WriteResult
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench, Clock
from tests.engine.steps import BROKEN, raising

SLOW_RETRY = RetryPolicy(max_attempts=3, initial_backoff_ms=10_000, max_backoff_ms=10_000, jitter=Jitter.NONE)


def limited(bench: Bench, count: int, *, elsewhere: bool = False, **settings: Any) -> Queue:
    runtime = bench.another_process() if elsewhere else None
    return bench.queue(ordering=Ordering.PER_KEY, concurrency_per_key=count, runtime=runtime, **settings)


def send(queue: Queue, *names: str, key: str = "k") -> None:
    enqueue_all(queue, [Draft(name.encode(), key=key) for name in names])


def names(queue: Queue, claims: Sequence[Claim]) -> list[str]:
    return [body_of(queue, held).decode() for held in claims]


def take(queue: Queue, limit: int = 10, **more: object) -> list[Claim]:
    return claim(queue, owner="w", limit=limit, **more).claims  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_first_few_of_each_key_are_handed_out_and_the_next_when_one_ends(bench: Bench, count: int) -> None:
    queue, other = limited(bench, count, shards=2), limited(bench, count, elsewhere=True, shards=2)
    for key in "ab":
        send(queue, *(f"{key}{n}" for n in range(5)), key=key)
    first = take(queue)
    assert sorted(names(queue, first)) == sorted(f"{key}{n}" for key in "ab" for n in range(count))
    assert take(queue) == take(other) == [], "every place is taken"
    done = next(held for held in first if body_of(queue, held) == b"a0")
    ack(queue, [done.entry])
    assert names(queue, take(other)) == [f"a{count}"]


def test_places_are_filled_by_one_at_a_time_as_by_many(bench: Bench) -> None:
    queue = limited(bench, 3)
    send(queue, *"abcde")
    assert [names(queue, take(queue, 1)) for _ in range(4)] == [["a"], ["b"], ["c"], []]


def test_what_waits_for_its_next_try_keeps_its_place(bench: Bench, clock: Clock) -> None:
    queue = limited(bench, 2, delivery=SLOW_RETRY)
    send(queue, *"abcd")
    a, b = take(queue)
    nack(queue, a.entry, a.message, BROKEN)
    assert take(queue) == []
    snooze(queue, b.entry, clock() + 5_000)
    assert claim(queue, owner="w", limit=10).next_at == clock() + 5_000
    clock.forward(5_000)
    assert names(queue, take(queue)) == ["b"]
    clock.forward(5_000)
    assert names(queue, take(queue)) == ["a"]


def test_a_delayed_message_has_its_place_from_the_start(bench: Bench, clock: Clock) -> None:
    queue = limited(bench, 2)
    enqueue(queue, Draft(b"late", key="k", not_before=clock() + 60_000))
    send(queue, *"ab")
    assert names(queue, take(queue)) == ["a"]


def test_a_lost_worker_frees_its_place_with_its_lease(bench: Bench, clock: Clock) -> None:
    queue = limited(bench, 2, lease_seconds=5)
    send(queue, *"abc")
    assert len(take(queue)) == 2
    clock.forward(5_001)
    assert names(queue, take(queue)) == ["a", "b"]


def test_a_priority_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidField, match="priority"):
        enqueue(limited(bench, 2), Draft(b"", key="k", priority="high"))


def test_what_a_consumer_does_not_want_keeps_its_place(bench: Bench) -> None:
    queue = limited(bench, 2)
    enqueue_all(queue, [Draft(b"a", key="k", project="red"), *(Draft(b"b", key="k", project="blue") for _ in range(3))])
    assert names(queue, take(queue, only=Filter(project="blue"))) == ["b"]


def test_an_entry_without_its_message_takes_no_place(memory_bench: Bench, clock: Clock) -> None:
    queue = limited(memory_bench, 2)
    store = memory_bench.store
    assert isinstance(store, MemoryStore)
    send(queue, "dead sender's")
    store.messages.clear()
    send(queue, *"abc")
    assert names(queue, take(queue)) == ["a", "b"]
    clock.forward(ORPHAN_GRACE_MS)
    assert names(queue, take(queue)) == ["a", "b"]
    assert len(store.entries) == 3, "the orphan is out"


# -- an entry that is laid ahead of one that is held ------------------------------------------------------------


class SlowSender(MemoryStore):
    """A store in which the next entry is laid only after something else has happened."""

    meanwhile: Callable[[], object] | None = None
    after_claim: Callable[[], object] | None = None

    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return super().put_entries(entries)

    def claim_entries(self, claimed: Sequence[Entry], now: int) -> list[WriteResult[Entry]]:
        found = super().claim_entries(claimed, now)
        after, self.after_claim = self.after_claim, None
        if after:
            after()
        return found


@pytest.fixture
def slow(clock: Clock) -> Bench:
    return Bench(SlowSender(), clock, "t")


def lay_late(bench: Bench, count: int, meanwhile: Callable[[], object]) -> None:
    """A sender takes its numbers first and lays its entries last."""
    assert isinstance(bench.store, SlowSender)
    bench.store.meanwhile = meanwhile
    send(limited(bench, 1, elsewhere=True), *(f"late{n}" for n in range(count)))


@pytest.mark.parametrize("late", [1, 5, LATE])
def test_what_is_laid_late_waits_for_what_is_held_behind_it(slow: Bench, late: int) -> None:
    queue, other = limited(slow, 1), limited(slow, 1, elsewhere=True)
    held: list[Claim] = []

    def overtake() -> None:
        send(queue, "quick")
        held.extend(take(queue))

    lay_late(slow, late, overtake)
    assert names(queue, held) == ["quick"]
    assert take(other) == []
    ack(queue, [held[0].entry])
    slow.clock.forward(2 * FULL_MS)
    assert names(other, take(other)) == ["late0"]


def test_a_key_that_was_full_is_left_alone_for_a_moment(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimed and given back once, not by every poll; others are not kept waiting by it."""
    queue, other = limited(slow, 1), limited(slow, 1, elsewhere=True)

    def overtake() -> None:
        send(queue, "quick")
        assert take(queue)

    lay_late(slow, 90, overtake)
    assert claim(other, owner="w", limit=1).claims == []
    monkeypatch.setattr(type(slow.store), "claim_entries", raising(AssertionError("claimed again")))
    claimed = claim(other, owner="w", limit=1)
    assert claimed.claims == []
    assert claimed.next_at == slow.clock() + FULL_MS + FULL_MS // 2
    monkeypatch.undo()
    send(queue, "another key's", key="other")
    assert names(other, take(other)) == ["another key's"]


def test_what_is_held_behind_a_late_one_is_seen_before_a_claim(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was read anyway: nothing is claimed only to be given back."""
    queue, other = limited(slow, 1), limited(slow, 1, elsewhere=True)

    def overtake() -> None:
        send(queue, "quick")
        assert take(queue)

    lay_late(slow, 5, overtake)
    monkeypatch.setattr(type(slow.store), "claim_entries", raising(AssertionError("claimed in vain")))
    assert take(other) == []


def test_two_that_see_each_other_both_give_back(memory_bench: Bench) -> None:
    """Neither knows what the other saw: to stay because one lies ahead would let both start."""
    queue = limited(memory_bench, 1)
    send(queue, *"ab")
    lane = queue.store.read_lane(queue.partitions()[0], "", "~", 2).items
    both = [entry.claimed(f"token{n}", f"w{n}", queue.now(), 5_000) for n, entry in enumerate(lane)]
    queue.store.claim_entries(both, queue.now())
    assert [keep_within(queue, both[0].place.pk, [entry], 0) for entry in both[:1]] == [set()]
    queue.store.claim_entries([replace(both[0], version=2)], queue.now())
    assert keep_within(queue, both[1].place.pk, [both[1]], 0) == set()
    memory_bench.clock.forward(6_000)
    assert names(queue, take(queue)) == ["a"]


def test_claims_that_cannot_be_checked_are_given_back(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = limited(memory_bench, 2)
    send(queue, *"abc")
    with monkeypatch.context() as patch:
        patch.setattr(places, "_heads", raising(StoreUnavailable("no answer")))
        with pytest.raises(StoreUnavailable):
            take(queue)
    memory_bench.clock.forward(60_000)
    claims = take(queue)
    assert names(queue, claims) == ["a", "b"]
    assert [held.entry.attempts for held in claims] == [0, 0], "a claim that was given back charges nothing"


# -- many keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "each"), [(40, 1), (12, 9), (3, 150), (60, 3)])
def test_every_key_gets_its_places_whatever_lies_between(memory_bench: Bench, keys: int, each: int) -> None:
    queue = limited(memory_bench, 3, shards=2)
    for key in range(keys):
        send(queue, *(f"{n}" for n in range(each)), key=f"key{key}")
    held: list[Claim] = []
    for limit in (1, 4, 100, 100, 100):
        held += take(queue, limit)
    in_hand = Counter(one.entry.key for one in held)
    assert in_hand == {f"key{key}": min(3, each) for key in range(keys)}
    for name in in_hand:
        numbers = sorted(int(body_of(queue, one)) for one in held if one.entry.key == name)
        assert numbers == list(range(min(3, each))), "the first ones, in their order"


def test_full_keys_are_remembered_up_to_a_bound(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MANY_FULL", 3)
    queue = limited(memory_bench, 1)
    for number in range(6):
        places._remember_full(queue, "pk", f"group{number}", memory_bench.clock() + number * 1_000)
    assert len(queue.poll_memory.full) <= 3
