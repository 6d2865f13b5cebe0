"""What may run is handed out, whatever stands beside it: blocked keys, held claims, poison, silent shards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from millrace.engine import laps
from millrace.engine.claim import claim
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import release
from millrace.engine.poll import SCAN_LIMIT
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import status
from millrace.engine.sweep import sweep
from millrace.model.cursor import Page
from millrace.model.errors import NotFound, StoreUnavailable
from millrace.model.ids import keyed_message_id
from millrace.model.keys import group_of
from millrace.model.message import Draft, Entry, Place
from millrace.model.queue_spec import Ordering, QueueSpec, Retention, RetryPolicy
from millrace.stores.interface import APPLIED, Unknown, WriteResult
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

HOUR = 3_600_000


class TestStore(MemoryStore):
    """The store in memory with its lanes sorted, so that deep queues are quick; it fails where a test says."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.entries: Any = SortedDict()
        self.read = 0
        self.silent_shard = ""
        self.bury_fails = False
        self.unanswered_claims = False

    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        if self.silent_shard and pk.endswith(self.silent_shard):
            raise StoreUnavailable("throttled")
        items: list[Entry] = []
        for place in self.entries.irange(Place(pk, after), Place(pk, upto), inclusive=(False, True)):
            items.append(self.entries[place])
            if len(items) == limit:
                break
        self.read += len(items)
        return Page(tuple(items), items[-1].place.sk if len(items) == limit else None)

    def bury_entry(self, *arguments: Any) -> WriteResult[Entry]:
        if self.bury_fails:
            return Unknown(StoreUnavailable("the dead-letter table is throttled"))
        return super().bury_entry(*arguments)

    def claim_entries(self, claimed: Any, now: int) -> list[WriteResult[Entry]]:
        found = super().claim_entries(claimed, now)
        if self.unanswered_claims:
            return [Unknown(StoreUnavailable("no answer")) if one == APPLIED else one for one in found]
        return found


@pytest.fixture
def store() -> TestStore:
    return TestStore()


def queue_on(store: TestStore, clock: Clock, seed: int = 5, **settings: Any) -> Queue:
    chance = random.Random(seed).random
    return Runtime(store, MemoryBlobs(), clock=clock, chance=chance).queue("t", QueueSpec("Jobs", **settings))


def send(queue: Queue, *names: str, **fields: Any) -> None:
    for start in range(0, len(names), 100):
        enqueue_all(queue, [Draft(b"{}", idempotency_key=name, **fields) for name in names[start : start + 100]])


def attempts(store: TestStore) -> list[int]:
    return sorted(entry.attempts for entry in store.entries.values())


def test_a_shard_that_does_not_answer_hides_neither_the_others_nor_what_was_claimed(
    store: TestStore, clock: Clock
) -> None:
    queue = queue_on(store, clock, shards=2)
    send(queue, *(f"k{n}" for n in range(20)))
    there = sum(place.pk.endswith("#0") for place in store.entries)
    assert 0 < there < 20
    store.silent_shard = "#1"
    for _ in range(6):
        claims = claim(queue, owner="w", limit=20).claims
        assert len(claims) == there, "the healthy shard is served by every claim"
        release(queue, [held.entry for held in claims])
        clock.forward(31_000)
    store.silent_shard = ""
    assert len(claim(queue, owner="w", limit=20).claims) == 20
    assert attempts(store) == [0] * 20, "nobody was charged for a run that never started"


def test_a_claim_that_finds_nothing_says_that_the_store_failed(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock)
    store.silent_shard = "#0"
    with pytest.raises(StoreUnavailable):
        claim(queue, owner="w")


def test_a_burial_without_an_answer_costs_no_claim(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock, retention=Retention(max_age_seconds=1_000))
    send(queue, "old")
    clock.forward(1_001_000)
    send(queue, *(f"k{n}" for n in range(9)))
    store.bury_fails = True
    for _ in range(5):
        claims = claim(queue, owner="w", limit=10).claims
        assert [held.message.idempotency_key for held in claims] == [f"k{n}" for n in range(9)]
        release(queue, [held.entry for held in claims])
        clock.forward(31_000)
    store.bury_fails = False
    assert len(claim(queue, owner="w", limit=10).claims) == 9
    assert [letter.reason for kept in store.dead_letters.values() for letter in kept.values()] == ["expired"]


def test_claims_without_an_answer_are_looked_up_and_handed_out(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock)
    send(queue, "a", "b")
    store.unanswered_claims = True
    assert len(claim(queue, owner="w", limit=2).claims) == 2


@pytest.mark.parametrize("ordering", [Ordering.UNORDERED, Ordering.PER_KEY])
def test_thousands_that_are_to_be_buried_do_not_delay_what_can_run(
    store: TestStore, clock: Clock, ordering: Ordering
) -> None:
    queue = queue_on(store, clock, ordering=ordering, retention=Retention(max_age_seconds=1_000))
    send(queue, *(f"old{n}" for n in range(2_000)), key="old")
    clock.forward(1_001_000)
    send(queue, "healthy", key="healthy")
    claims = claim(queue, owner="w", limit=10).claims
    assert [held.message.idempotency_key for held in claims] == ["healthy"]


def test_thousands_of_live_claims_hide_nothing_and_are_not_read_by_every_poll(store: TestStore, clock: Clock) -> None:
    count = SCAN_LIMIT + 600
    queue = queue_on(store, clock)
    send(queue, *(f"k{n}" for n in range(count)))
    held = 0
    for _ in range(count):
        claimed = claim(queue, owner="w", limit=100, lease_ms=HOUR)
        held += len(claimed.claims)
        if not claimed.claims and claimed.next_at != clock():
            break
    assert held == count
    store.read = 0
    send(queue, "fresh")
    (fresh,) = claim(queue, owner="w", limit=10).claims
    assert fresh.message.idempotency_key == "fresh"
    assert store.read < 200, "what others hold is read once a second, not by every poll"


def test_a_claim_given_back_early_is_seen_within_a_second(store: TestStore, clock: Clock) -> None:
    queue, other = queue_on(store, clock), queue_on(store, clock, seed=6)
    send(queue, *(f"k{n}" for n in range(400)))
    held = [claimed for _ in range(4) for claimed in claim(other, owner="other", limit=100, lease_ms=HOUR).claims]
    assert claim(queue, owner="w", limit=10).claims == []
    release(other, [held[0].entry])
    clock.forward(1_000)
    (found,) = claim(queue, owner="w", limit=10).claims
    assert found.message.id == held[0].message.id


def test_a_higher_priority_is_first_though_thousands_are_held(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock)
    send(queue, *(f"k{n}" for n in range(500)))
    for _ in range(5):
        assert claim(queue, owner="w", limit=100, lease_ms=HOUR).claims
    send(queue, "later")
    enqueue(queue, Draft(b"{}", idempotency_key="urgent", priority="critical"))
    claims = claim(queue, owner="w", limit=1).claims
    assert [held.message.idempotency_key for held in claims] == ["urgent"]


@pytest.mark.parametrize(
    ("places", "keys", "depth", "polls"),
    [
        *((None, 200, 5, 3), (None, 10_000, 1, 4), (None, 10_000, 2, 8), (None, 100, 40, 10)),
        *((2, 10_000, 2, 6), (2, 100, 40, 10), (5, 2_000, 6, 4)),
    ],
)
def test_a_ready_key_is_found_behind_many_that_back_off(
    store: TestStore, clock: Clock, places: int | None, keys: int, depth: int, polls: int
) -> None:
    policy = RetryPolicy(max_attempts=50)
    queue = queue_on(store, clock, ordering=Ordering.PER_KEY, concurrency_per_key=places, delivery=policy)
    for number in range(0, keys, 20):
        drafts = [
            Draft(b"{}", idempotency_key=f"{key}-{n}", key=f"key{key}")
            for key in range(number, number + 20)
            for n in range(depth)
        ]
        for start in range(0, len(drafts), 100):
            enqueue_all(queue, drafts[start : start + 100])
    met: Counter[str] = Counter()
    for place, entry in store.entries.items():
        met[group_of(place)] += 1
        if met[group_of(place)] <= (places or 1):
            store.entries[place] = replace(entry, due=clock() + HOUR, attempts=1)
    enqueue(queue, Draft(b"{}", idempotency_key="healthy", key="healthy"))
    for _ in range(polls):
        claimed = claim(queue, owner="w", limit=10)
        if claimed.claims:
            break
        assert claimed.next_at == clock(), "there is more to see now: the worker must not go idle"
    assert [held.message.idempotency_key for held in claimed.claims] == ["healthy"]


def test_a_poll_that_reaches_its_bound_says_that_there_is_more_and_goes_on(
    store: TestStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laps, "STEPS", 1)
    queue = queue_on(store, clock, ordering=Ordering.PER_KEY)
    for number in range(200):
        send(queue, f"{number}", key=f"key{number}")
    for place, entry in list(store.entries.items()):
        store.entries[place] = replace(entry, due=clock() + HOUR)
    send(queue, "healthy", key="healthy")
    empty = 0
    while not (claimed := claim(queue, owner="w")).claims:
        empty += 1
        assert claimed.next_at == clock(), "there is more to see now: the worker must not go idle"
        assert empty < 250, "a poll goes on where the last one stopped"
    assert empty > 0, "one read of one key cannot have seen them all"
    assert [held.message.idempotency_key for held in claimed.claims] == ["healthy"]


def test_nothing_to_claim_is_said_with_its_time_once_every_key_was_seen(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock, ordering=Ordering.PER_KEY)
    send(queue, "a", key="a")
    (place,) = store.entries
    store.entries[place] = replace(store.entries[place], due=clock() + HOUR)
    assert claim(queue, owner="w", limit=10).next_at == clock() + HOUR


def test_every_key_gets_its_turn(store: TestStore, clock: Clock) -> None:
    """A poll goes on where the last one stopped: in as many claims as there are keys each was served."""
    queue = queue_on(store, clock, ordering=Ordering.PER_KEY)
    for key in range(30):
        send(queue, *(f"{key}-{n}" for n in range(5)), key=f"key{key}")
    served = set()
    for _ in range(30):
        (held,) = claim(queue, owner="w", limit=1).claims
        served.add(held.entry.key)
        release(queue, [held.entry])
    assert len(served) == 30


class PausedStore(TestStore):
    """A sender that is paused right before its commit."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def put_messages(self, messages: Any) -> Any:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return super().put_messages(messages)


@pytest.mark.parametrize("ordering", list(Ordering))
def test_a_sender_paused_for_minutes_is_not_told_that_it_was_accepted(clock: Clock, ordering: Ordering) -> None:
    store = PausedStore()
    queue, other = queue_on(store, clock, ordering=ordering), queue_on(store, clock, ordering=ordering)

    def sleep() -> None:
        clock.forward(ORPHAN_GRACE_MS + 1_000)
        sweep(other)
        assert not store.entries, "the sweep takes it for an orphan"

    store.meanwhile = sleep
    with pytest.raises(StoreUnavailable, match="nothing was accepted"):
        enqueue(queue, Draft(b"{}", idempotency_key="k", key="a"))
    with pytest.raises(NotFound):
        status(queue, keyed_message_id("t", "Jobs", "k"))
    again = enqueue(queue, Draft(b"{}", idempotency_key="k", key="a"))
    assert not again.duplicate
    assert [held.message.id for held in claim(queue, owner="w").claims] == [again.message_id]


def test_a_sender_paused_for_less_than_the_grace_is_accepted(clock: Clock) -> None:
    store = PausedStore()
    queue = queue_on(store, clock)

    def nap() -> None:
        clock.forward(ORPHAN_GRACE_MS - 1_000)
        sweep(queue_on(store, clock))

    store.meanwhile = nap
    receipt = enqueue(queue, Draft(b"{}", idempotency_key="k"))
    assert [held.message.id for held in claim(queue, owner="w").claims] == [receipt.message_id]


def test_what_dead_senders_left_at_the_head_does_not_hide_what_lies_behind(store: TestStore, clock: Clock) -> None:
    queue = queue_on(store, clock)
    send(queue, *(f"dead{n}" for n in range(5)))
    store.messages.clear()
    clock.forward(ORPHAN_GRACE_MS + 1)
    send(queue, "healthy")
    assert [held.message.idempotency_key for held in claim(queue, owner="w").claims] == ["healthy"]
    sweep(queue)
    assert len(store.entries) == 1
