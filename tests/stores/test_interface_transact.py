"""The queue's steps and an app's own writes in one transaction: all of it or nothing, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.clock import system_entropy
from millrace.model.errors import InvalidTransaction
from millrace.model.ids import random_token
from millrace.model.message import Entry, Result
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import (
    APPLIED,
    AcceptStep,
    EndStep,
    StepRefused,
    Store,
    TooLate,
    WritesRefused,
)
from tests.app_table import Orders, writes
from tests.conftest import NOON
from tests.stores.samples import Samples, claimed


@pytest.fixture
def held(store: Store, samples: Samples) -> Entry:
    entry = samples.entry()
    store.put_entries([entry])
    held = claimed(entry)
    assert store.claim_entries([held], NOON) == [APPLIED]
    return held


def token() -> str:
    return random_token(system_entropy)


def ending(samples: Samples, entry: Entry) -> EndStep:
    return EndStep(entry, samples.result(entry.id, nonce=entry.nonce, version=entry.version))


def accepting(samples: Samples, replaces: str = "") -> AcceptStep:
    entry = samples.entry()
    return AcceptStep(samples.message(entry), entry, replaces)


def test_an_ending_and_the_writes_happen_together(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    step = ending(samples, held)
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert store.get_entry(held.place) is None
    assert store.get_records(held.id).result == step.result
    assert orders.charges(7) == 1


def test_a_repeat_of_an_ending_is_recognised_and_writes_nothing(
    store: Store, samples: Samples, held: Entry, orders: Orders
) -> None:
    step = ending(samples, held)
    assert store.transact([step], writes(orders.charge(7)), token()) == APPLIED
    assert store.transact([step], writes(orders.charge(7)), token()) == APPLIED
    assert orders.charges(7) == 1


def test_a_stale_claim_ends_nothing_and_writes_nothing(
    store: Store, samples: Samples, held: Entry, orders: Orders
) -> None:
    stale = ending(samples, replace(held, token="older", version=held.version - 1))
    assert store.transact([stale], writes(orders.put(7)), token()) == StepRefused(0, entry=held)
    assert store.get_entry(held.place) == held
    assert store.get_records(held.id).result is None
    assert orders.charges(7) is None


def test_the_claim_of_an_ended_entry_is_stale(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    store.end_entries([held])
    assert store.transact([ending(samples, held)], writes(orders.put(7)), token()) == StepRefused(0)
    assert orders.charges(7) is None


def test_an_ending_by_another_claim_is_not_ones_own(
    store: Store, samples: Samples, held: Entry, orders: Orders
) -> None:
    mine = ending(samples, held)
    other = Result(held.id, held.nonce, held.version + 1, NOON, b"", NOON // 1000)
    store.end_entries([held])
    store.put_results([other])
    assert store.transact([mine], writes(orders.put(7)), token()) == StepRefused(0)
    assert store.get_records(held.id).result == other
    assert orders.charges(7) is None


def test_a_condition_of_the_app_keeps_the_entry(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    step = ending(samples, held)
    outcome = store.transact([step], writes(orders.charge(1), orders.check(7)), token())
    assert isinstance(outcome, WritesRefused)
    assert list(outcome.reasons) == [1]
    assert "attribute_exists(pk)" in outcome.reasons[1]
    assert store.get_entry(held.place) == held
    assert store.get_records(held.id).result is None
    assert orders.charges(1) is None


def test_a_stale_claim_goes_before_a_condition(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    stale = ending(samples, replace(held, token="older"))
    assert store.transact([stale], writes(orders.check(7)), token()) == StepRefused(0, entry=held)


def test_a_message_and_the_writes_happen_together(store: Store, samples: Samples, orders: Orders) -> None:
    step = accepting(samples)
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert step.entry is not None
    assert store.get_entry(step.entry.place) == step.entry
    assert store.get_messages([step.message.id]) == {step.message.id: step.message}
    assert orders.charges(7) == 1


def test_a_repeat_of_an_acceptance_is_recognised(store: Store, samples: Samples, orders: Orders) -> None:
    """Also by whoever's condition it would be refused now."""
    step = accepting(samples)
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert orders.charges(7) == 1


def test_what_is_there_already_refuses_all_of_it(store: Store, samples: Samples, orders: Orders) -> None:
    first, other = accepting(samples), accepting(samples)
    assert store.transact([first], (), token()) == APPLIED
    again = replace(accepting(samples), message=replace(first.message, nonce="newer"))
    outcome = store.transact([other, again], writes(orders.put(7)), token())
    assert outcome == StepRefused(1, message=first.message)
    assert store.get_messages([other.message.id]) == {}
    assert other.entry is not None
    assert store.get_entry(other.entry.place) is None
    assert orders.charges(7) is None


@pytest.mark.parametrize("as_read", [True, False])
def test_a_message_is_replaced_only_as_it_was_read(
    store: Store, samples: Samples, orders: Orders, as_read: bool
) -> None:
    first = accepting(samples)
    store.transact([first], (), token())
    newer = replace(accepting(samples), replaces=first.message.nonce if as_read else "another")
    newer = replace(newer, message=replace(newer.message, id=first.message.id))
    outcome = store.transact([newer], writes(orders.put(7)), token())
    assert outcome == (APPLIED if as_read else StepRefused(0, message=first.message))
    assert orders.charges(7) == (1 if as_read else None)


def test_what_the_filter_left_out_has_no_entry(store: Store, samples: Samples, orders: Orders) -> None:
    step = replace(accepting(samples), entry=None)
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert store.get_messages([step.message.id]) == {step.message.id: step.message}
    assert store.get_entry(step.message.place) is None


def test_nothing_is_sent_when_its_time_is_over(store: Store, samples: Samples, orders: Orders) -> None:
    step = accepting(samples)
    assert store.transact([step], writes(orders.put(7)), token(), lambda: False) == TooLate()
    assert orders.charges(7) is None
    assert store.transact([step], writes(orders.put(7)), token()) == APPLIED
    assert store.transact([step], writes(orders.put(7)), token(), lambda: False) == APPLIED, "it had happened"


def test_more_than_a_hundred_items_are_refused(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    many = writes(*(orders.put(number) for number in range(99)))
    with pytest.raises(InvalidTransaction, match="101 items"):
        store.transact([ending(samples, held)], many, token())
    assert store.get_entry(held.place) == held
    assert store.transact([ending(samples, held)], many[:98], token()) == APPLIED
    assert orders.charges(97) == 1


def test_an_item_twice_is_refused(store: Store, samples: Samples, held: Entry, orders: Orders) -> None:
    if isinstance(store, DynamoStore) and type(store._calls.client).__name__ == "SimulatedDynamoDB":
        return  # the model takes only what the store itself sends
    with pytest.raises(InvalidTransaction):
        store.transact([ending(samples, held)], writes(orders.put(7), orders.charge(7)), token())
    assert store.get_entry(held.place) == held
    assert orders.charges(7) is None
