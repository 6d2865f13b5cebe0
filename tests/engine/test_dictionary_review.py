"""The review of a queue's dictionary: rare, bounded, from what many share, and harmless when two do it at once."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.dictionary_review import REVIEW_MS, SAMPLE, Review, is_due, review_dictionary
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.model.clock import DAY, MINUTE
from millrace.model.dictionary import USE_MS
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

_RNG = random.Random(1)
PADDING = {f"setting_{number}": f"{_RNG.getrandbits(256):x}" for number in range(40)}


def body(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"{number * 104_729:x}", **PADDING, "name": f"Person {number}", **more}).encode()


class Sweeps:
    """A queue that is swept."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.queue = self.process()
        self.number = 0

    def process(self) -> Queue:
        return Runtime(self.store, MemoryBlobs(), clock=self.clock, chance=lambda: 0.5).queue("t", QueueSpec("Jobs"))

    def put(self, count: int, **more: Any) -> None:
        drafts = [Draft(body(self.number + one, **more)) for one in range(count)]
        self.number += count
        enqueue_all(self.queue, drafts)
        self.queue.runtime.credits.give_back()

    def drain(self) -> None:
        while claims := claim(self.queue, owner="w", limit=25).claims:
            ack(self.queue, [held.entry for held in claims])

    def sweep(self) -> Review | None:
        return review_dictionary(self.process(), self.store.get_queue_state("t", "Jobs"))


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def sweeps(store: MemoryStore, clock: Clock) -> Sweeps:
    return Sweeps(store, clock)


def test_a_deep_queue_has_its_dictionary_after_a_few_sweeps(sweeps: Sweeps) -> None:
    sweeps.put(SAMPLE)
    found = []
    for _ in range(4):
        found.append(sweeps.sweep())
        ack(sweeps.queue, [held.entry for held in claim(sweeps.queue, owner="w", limit=90).claims])
    assert sum(review is not None for review in found) == 1


def _reviewed(sweeps: Sweeps, **more: Any) -> Review:
    """Messages come and go, a few between two sweeps, until there was a review."""
    sweeps.put(SAMPLE, **more)
    sweeps.drain()
    for _ in range(100):
        sweeps.clock.forward(MINUTE)
        if (review := sweeps.sweep()) is not None:
            return review
        sweeps.put(10, **more)
        sweeps.drain()
    raise AssertionError("no review")


def test_a_queue_that_is_drained_at_once_is_sampled_bit_by_bit(sweeps: Sweeps) -> None:
    review = _reviewed(sweeps)
    state = sweeps.store.get_queue_state("t", "Jobs")
    assert state.dictionary == review.dictionary != ""
    assert (review.plain, review.after) == (review.before, 1.0)
    assert sweeps.store.get_body_sample("t", "Jobs") == ()
    sweeps.put(1)
    (held,) = claim(sweeps.process(), owner="w").claims
    assert held.message.body.dictionary == review.dictionary
    assert body_of(sweeps.process(), held) == body(sweeps.number - 1)


def test_it_is_not_asked_again_within_a_week(sweeps: Sweeps) -> None:
    _reviewed(sweeps)
    now = sweeps.clock()
    state = replace(sweeps.store.get_queue_state("t", "Jobs"), moved_at=now + REVIEW_MS)
    assert not is_due(state, now + REVIEW_MS - 1)
    assert is_due(state, now + REVIEW_MS)


@pytest.mark.parametrize("changes", [{"arrived": SAMPLE - 1}, {"moved_at": 0, "depth": 0}], ids=["few", "still"])
def test_a_queue_of_few_messages_or_one_that_stands_still_is_left_alone(
    sweeps: Sweeps, changes: dict[str, int]
) -> None:
    sweeps.put(SAMPLE)
    state = sweeps.store.get_queue_state("t", "Jobs")
    assert is_due(state, sweeps.clock())
    assert not is_due(replace(state, **changes), sweeps.clock())  # type: ignore[arg-type]


def test_what_still_serves_is_used_on(sweeps: Sweeps) -> None:
    first = _reviewed(sweeps).dictionary
    sweeps.clock.forward(REVIEW_MS)
    review = _reviewed(sweeps)
    assert review.dictionary == first
    stored = sweeps.store.get_dictionary("t", "Jobs", first)
    assert stored is not None
    assert stored.until > sweeps.clock() + USE_MS - DAY
    assert len(sweeps.store.dictionaries) == 1


def test_another_kind_of_messages_gets_another_dictionary(sweeps: Sweeps) -> None:
    first = _reviewed(sweeps).dictionary
    sweeps.clock.forward(REVIEW_MS)
    other = {f"attribute-{number}": f"{_RNG.getrandbits(256):x}" for number in range(60)}
    review = _reviewed(sweeps, **other)
    assert review.dictionary not in ("", first)
    assert review.after <= 0.9 * review.before


def test_what_saves_too_little_is_not_packed_with(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engine.test_dictionary_review.PADDING", {"x": "y" * 600})
    review = _reviewed(sweeps)
    assert review.dictionary == ""
    assert not sweeps.store.dictionaries
    assert sweeps.store.get_queue_state("t", "Jobs").reviewed_at == sweeps.clock()


def test_of_two_sweeps_at_once_one_names_its_dictionary(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's is kept beside it, is never packed with, and goes by its ttl."""
    _reviewed(sweeps)
    sweeps.clock.forward(REVIEW_MS)
    other = {f"attribute-{number}": f"{_RNG.getrandbits(256):x}" for number in range(60)}
    put_dictionary = sweeps.store.put_dictionary
    rivals: list[Review | None] = []

    def overtaken(*given: Any) -> None:
        put_dictionary(*given)
        if not rivals:
            rivals.append(None)
            rivals[0] = sweeps.sweep()

    monkeypatch.setattr(sweeps.store, "put_dictionary", overtaken)
    with pytest.raises(AssertionError, match="no review"):
        _reviewed(sweeps, **other)
    assert rivals[0] is not None
    assert sweeps.store.get_queue_state("t", "Jobs").dictionary == rivals[0].dictionary


def test_a_review_costs_so_much_and_no_more(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all the sweeps that gather for it, and the one that makes it."""
    calls: dict[str, int] = {}
    for name in ("put_body_sample", "get_messages", "put_dictionary", "set_dictionary", "read_lane"):
        whole = getattr(sweeps.store, name)

        def counted(*given: Any, _name: str = name, _whole: Any = whole) -> Any:
            calls[_name] = calls.get(_name, 0) + (0 if claiming else 1)
            return _whole(*given)

        monkeypatch.setattr(sweeps.store, name, counted)
    claiming = True
    sweeps.put(SAMPLE)
    sweeps.drain()
    while True:
        sweeps.clock.forward(MINUTE)
        claiming = False
        review = sweeps.sweep()
        claiming = True
        if review is not None:
            break
        sweeps.put(10)
        sweeps.drain()
    assert calls.pop("put_body_sample") <= SAMPLE // 7 + 1
    assert calls == {"get_messages": 1, "put_dictionary": 1, "set_dictionary": 1, "read_lane": 0}


def test_a_queue_that_wants_none_is_not_sampled(sweeps: Sweeps) -> None:
    sweeps.put(SAMPLE)
    queue = sweeps.process()
    without = queue.runtime.queue("t", replace(queue.spec, dictionary=False))
    for _ in range(4):
        assert review_dictionary(without, sweeps.store.get_queue_state("t", "Jobs")) is None
    assert sweeps.store.get_body_sample("t", "Jobs") == ()


def test_a_sample_is_not_written_for_nothing_new(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.put(SAMPLE)
    sweeps.drain()
    assert sweeps.sweep() is None
    monkeypatch.setattr(sweeps.store, "put_body_sample", None)
    assert sweeps.sweep() is None
