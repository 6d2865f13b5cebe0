"""A queue's counters over a connection that loses answers: an addition is never made twice."""

from __future__ import annotations

import pytest

from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import CounterDelta, CreditRequest, QueueState, Slot
from millrace.stores.dynamodb.counters import slot_item, slot_of
from millrace.stores.interface import Full
from tests.conftest import NOON
from tests.faults.client import StoreOnFaultyClient, never_sent, timed_out_after, timed_out_before


def taken(store: StoreOnFaultyClient, count: int, limit: int = 10) -> QueueState | Full:
    return store.take_credits("t", "q", CreditRequest(count=count, max_depth=limit, now=NOON))


def booked(store: StoreOnFaultyClient) -> QueueState | None:
    return store.settle("t", "q", CounterDelta(NOON, ended=1, done=1))


def test_an_ending_without_an_answer_is_not_booked_again(store: StoreOnFaultyClient) -> None:
    """Booked twice, the depth would be too low for good; too high, the sweep repairs it."""
    taken(store, 3)
    store.faults.plan(timed_out_after)
    assert booked(store) is None
    assert (store.get_queue_state("t", "q").depth, len(store.faults.sent)) == (2, 2)


def test_an_ending_that_surely_did_nothing_is_booked_again(store: StoreOnFaultyClient) -> None:
    taken(store, 3)
    store.faults.plan(never_sent)
    state = booked(store)
    assert state is not None
    assert (state.depth, state.done) == (2, 1)


def test_credits_taken_without_an_answer_are_asked_for_again_within_the_limit(store: StoreOnFaultyClient) -> None:
    """The first block may be lost until the sweep finds it; the limit holds all the same."""
    store.faults.plan(timed_out_after)
    found = taken(store, 4, limit=8)
    assert isinstance(found, QueueState)
    assert found.depth == 8
    assert isinstance(taken(store, 1, limit=8), Full)


def test_a_block_larger_than_the_queue_writes_nothing(store: StoreOnFaultyClient) -> None:
    assert isinstance(taken(store, 11, limit=10), Full)
    assert store.faults.sent == ["get_item"]


@pytest.mark.parametrize("fault", [timed_out_before, timed_out_after])
def test_a_change_of_what_was_seen_counts_only_where_it_surely_happened(
    store: StoreOnFaultyClient, fault: object
) -> None:
    seen = store.set_paused("t", "q", 0, "")
    store.faults.plan(fault)  # type: ignore[arg-type]
    assert not store.set_pace(seen, NOON)
    assert len(store.faults.sent) == 1


def test_a_slot_comes_back_and_may_be_forgotten_a_day_after_it_ran_out() -> None:
    slot = Slot(3, "mine", NOON)
    item = slot_item("t", "q", slot)
    assert slot_of(item) == slot
    assert int(item["ttl"]["N"]) == NOON // 1000 + 86_400


def test_a_slot_that_cannot_be_freed_runs_out_by_itself(store: StoreOnFaultyClient) -> None:
    slot = Slot(0, "mine", NOON + 10)
    assert store.take_slot("t", "q", slot, NOON)
    store.faults.plan(always=timed_out_before)
    store.free_slot("t", "q", slot)
    store.faults.plan()
    assert store.list_slots("t", "q") == [slot]
    assert store.take_slot("t", "q", Slot(0, "other", NOON + 20), NOON + 10)


def test_a_state_that_cannot_be_read_is_an_error(store: StoreOnFaultyClient) -> None:
    store.faults.plan(always=timed_out_before)
    with pytest.raises(StoreUnavailable):
        store.get_queue_state("t", "q")
