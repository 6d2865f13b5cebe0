"""Messages of a fifo queue that were done in one call: what has ended is always the beginning of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.end_in_order import FEWEST_TOGETHER, MOST_TOGETHER, TRIES, end_in_order
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack, follow_up
from millrace.engine.queue import Queue
from millrace.engine.status import status
from millrace.model.errors import StaleClaim, StoreUnavailable
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Ordering
from millrace.stores.interface import Unknown
from tests.conftest import Bench

SILENCE = Unknown(StoreUnavailable("no answer"))


def held_by(bench: Bench, count: int) -> tuple[Queue, list[Claim]]:
    queue = bench.queue(ordering=Ordering.FIFO, lease_seconds=5)
    enqueue_all(queue, [Draft(b"x")] * count)
    return queue, claim(queue, owner="w", limit=count).claims


def entries_of(claims: Sequence[Claim]) -> list[Entry]:
    return [held.entry for held in claims]


def left(bench: Bench, claims: Sequence[Claim]) -> list[bool]:
    return [bench.store.get_entry(held.entry.place) is not None for held in claims]


class Calls:
    """What is asked of a store; answers may be lost, before or after it happens."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, *, lost: int = 0, happens: bool = True) -> None:
        self.together: list[int] = []
        self.tokens: set[str] = set()
        self.alone = 0
        end_together, end_entries = bench.store.end_together, bench.store.end_entries

        def together(entries: Sequence[Entry], token: str) -> Any:
            self.together.append(len(entries))
            self.tokens.add(token)
            is_lost = len(self.together) <= lost
            outcome = end_together(entries, token) if happens or not is_lost else SILENCE
            return SILENCE if is_lost else outcome

        def alone(entries: Sequence[Entry]) -> Any:
            self.alone += len(entries)
            return end_entries(entries)

        patch.setattr(bench.store, "end_together", together)
        patch.setattr(bench.store, "end_entries", alone)


def test_several_end_in_one_call_with_results_and_counters_behind_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, claims = held_by(bench, 5)
    calls = Calls(bench, monkeypatch)
    ended, problem = end_in_order(queue, entries_of(claims), [b"%d" % n for n in range(5)])
    assert (calls.together, calls.alone, problem) == ([5], 0, None)
    assert left(bench, claims) == [False] * 5
    follow_up(queue, [one for one in ended if one])
    results = [status(queue, held.entry.id).result for held in claims]
    assert [result.snapshot for result in results if result] == [b"0", b"1", b"2", b"3", b"4"]
    assert queue.state(fresh=True).done == 5
    assert ack(queue, entries_of(claims)) == [None] * 5, "a repeated ack is its own"


def test_few_are_deleted_one_after_another(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, claims = held_by(bench, FEWEST_TOGETHER - 1)
    calls = Calls(bench, monkeypatch)
    ended, problem = end_in_order(queue, entries_of(claims), [b""] * len(claims))
    assert (calls.together, calls.alone, len(ended), problem) == ([], len(claims), len(claims), None)


@pytest.mark.parametrize("happens", [True, False], ids=["it happened", "it did not"])
@pytest.mark.parametrize("lost", [1, TRIES])
def test_a_lost_answer_is_asked_again_under_its_token(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lost: int, happens: bool
) -> None:
    queue, claims = held_by(bench, 4)
    calls = Calls(bench, monkeypatch, lost=lost, happens=happens)
    ended, problem = end_in_order(queue, entries_of(claims), [b"r"] * 4)
    assert (len(ended), problem) == (4, None)
    assert left(bench, claims) == [False] * 4
    assert len(calls.tokens) == 1
    assert calls.alone == (4 if lost == TRIES else 0), "without any answer each is asked by itself"


def test_many_end_a_few_at_a_time_up_to_the_first_that_does_not(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, claims = held_by(bench, 2 * MOST_TOGETHER + 5)
    lost = MOST_TOGETHER + 2
    assert ack(queue, [claims[lost].entry]) == [None]
    bench.clock.forward(5_000)
    calls = Calls(bench, monkeypatch)
    ended, problem = end_in_order(queue, entries_of(claims), [b""] * len(claims))
    assert (calls.together, calls.alone) == ([MOST_TOGETHER] * 2, 3)
    assert (len(ended), type(problem)) == (lost, StaleClaim)
    assert left(bench, claims) == [n > lost for n in range(len(claims))]


@pytest.mark.parametrize("position", [0, 2, 3])
def test_a_claim_lost_in_the_middle_ends_what_lies_before_it_and_nothing_behind(bench: Bench, position: int) -> None:
    queue, claims = held_by(bench, 4)
    assert ack(queue, [claims[position].entry]) == [None]  # as an operator or a later holder would take it out
    bench.clock.forward(5_000)
    ended, problem = end_in_order(queue, entries_of(claims), [b"r"] * 4)
    assert isinstance(problem, StaleClaim)
    assert len(ended) == position
    assert left(bench, claims) == [n > position for n in range(4)]


def test_what_another_has_claimed_since_stays_his(bench: Bench) -> None:
    queue, claims = held_by(bench, 4)
    bench.clock.forward(5_000)
    (taken,) = claim(queue, owner="another", limit=1).claims
    ended, problem = end_in_order(queue, entries_of(claims), [b"r"] * 4)
    assert (ended, type(problem)) == ([], StaleClaim)
    assert bench.store.get_entry(taken.entry.place) == taken.entry
    assert left(bench, claims) == [True] * 4, "nothing behind it has ended"


def test_where_a_store_stays_silent_nothing_behind_is_touched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, claims = held_by(bench, 4)
    asked: list[str] = []

    def silent(entries: Sequence[Entry]) -> list[Unknown]:
        asked.extend(entry.id for entry in entries)
        return [SILENCE]

    monkeypatch.setattr(bench.store, "end_together", lambda _entries, _token: SILENCE)
    monkeypatch.setattr(bench.store, "end_entries", silent)
    ended, problem = end_in_order(queue, entries_of(claims), [b"r"] * 4)
    assert (ended, type(problem)) == ([], StoreUnavailable)
    assert asked == [claims[0].entry.id] * TRIES
