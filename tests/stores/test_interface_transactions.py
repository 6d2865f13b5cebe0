"""What is one step though it touches several items: move, bury, write the workflow state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.message import Entry, MessageLocation, Records
from millrace.stores.interface import APPLIED, Refused, Store
from tests.conftest import NOON
from tests.stores.samples import LEASE, Samples, claimed


@pytest.fixture
def held(store: Store, samples: Samples) -> Entry:
    entry = samples.entry()
    store.put_entries([entry])
    held = claimed(entry)
    assert store.claim_entries([held], NOON) == [APPLIED]
    return held


def stale(entry: Entry) -> Entry:
    return replace(entry, token="older")


# -- move -----------------------------------------------------------------------------------------------------------


def test_moved_entry_lies_elsewhere_and_says_where(store: Store, samples: Samples, held: Entry) -> None:
    new, location = samples.moved(held)
    assert store.move_entry(held, new, location) == APPLIED
    assert store.get_entry(held.place) is None
    assert store.get_entry(new.place) == new
    assert store.get_location(held.id) == location
    assert store.get_records(held.id) == Records(location=location)


def test_entry_may_change_in_its_place(store: Store, samples: Samples, held: Entry) -> None:
    new = replace(held.unclaimed(), due=NOON + 1, attempts=2)
    location = MessageLocation(held.id, held.nonce, new.place, 7)
    assert store.move_entry(held, new, location) == APPLIED
    assert store.get_entry(held.place) == new
    assert store.get_location(held.id) == location


def test_second_move_overwrites_the_location(store: Store, samples: Samples, held: Entry) -> None:
    new, location = samples.moved(held)
    store.move_entry(held, new, location)
    again = claimed(new, "again")
    store.claim_entries([again], NOON)
    newer, later = samples.moved(again, NOON + 900)
    assert store.move_entry(again, newer, later) == APPLIED
    assert store.get_location(held.id) == later


@pytest.mark.parametrize("in_place", [False, True])
def test_move_by_a_stale_token_changes_nothing(store: Store, samples: Samples, held: Entry, in_place: bool) -> None:
    new, location = samples.moved(held)
    target = replace(new, place=held.place) if in_place else new
    assert store.move_entry(stale(held), target, location) == Refused(held)
    assert store.get_entry(held.place) == held
    assert store.get_entry(new.place) is None
    assert store.get_location(held.id) is None


@pytest.mark.parametrize("in_place", [False, True])
def test_move_of_an_ended_entry_does_not_bring_it_back(
    store: Store, samples: Samples, held: Entry, in_place: bool
) -> None:
    store.end_entries([held])
    new, location = samples.moved(held)
    target = replace(new, place=held.place) if in_place else new
    assert store.move_entry(held, target, location) == Refused(None)
    assert store.get_entry(target.place) is None
    assert store.get_location(held.id) is None


# -- bury -----------------------------------------------------------------------------------------------------------


def test_buried_entry_is_a_dead_letter(store: Store, samples: Samples, held: Entry) -> None:
    dead_letter = samples.dead_letter(samples.message(held))
    assert store.bury_entry(held, samples.buried(dead_letter), dead_letter) == APPLIED
    assert store.get_entry(held.place) is None
    assert store.get_location(held.id) == samples.buried(dead_letter)
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == dead_letter


def test_purged_entry_leaves_a_trace_and_no_dead_letter(store: Store, samples: Samples, held: Entry) -> None:
    trace = MessageLocation(held.id, held.nonce, None, 7, purged_at=NOON)
    assert store.bury_entry(held, trace, None) == APPLIED
    assert store.get_entry(held.place) is None
    assert store.get_location(held.id) == trace
    assert store.read_dead_letters(samples.tenant, samples.queue, "", "~", 10).items == ()


def test_burial_by_a_stale_token_changes_nothing(store: Store, samples: Samples, held: Entry) -> None:
    dead_letter = samples.dead_letter(samples.message(held))
    assert store.bury_entry(stale(held), samples.buried(dead_letter), dead_letter) == Refused(held)
    assert store.get_entry(held.place) == held
    assert store.get_location(held.id) is None
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) is None


def test_burial_of_an_ended_entry_makes_no_dead_letter(store: Store, samples: Samples, held: Entry) -> None:
    store.end_entries([held])
    dead_letter = samples.dead_letter(samples.message(held))
    assert store.bury_entry(held, samples.buried(dead_letter), dead_letter) == Refused(None)
    assert store.get_location(held.id) is None
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) is None


# -- workflow state -------------------------------------------------------------------------------------------------


def test_document_is_written_version_by_version(store: Store, samples: Samples, held: Entry) -> None:
    first, second = samples.workflow_state(1), samples.workflow_state(2, b"step 2")
    assert store.put_workflow_state(held, first, NOON) == APPLIED
    assert store.get_records(held.id).workflow_state == first
    assert store.put_workflow_state(held, second, NOON) == APPLIED
    assert store.get_records(held.id).workflow_state == second


def test_repeated_document_is_recognised(store: Store, samples: Samples, held: Entry) -> None:
    store.put_workflow_state(held, samples.workflow_state(1), NOON)
    assert store.put_workflow_state(held, samples.workflow_state(1), NOON) == APPLIED


@pytest.mark.parametrize("version", [1, 3, 9])
def test_document_of_a_wrong_version_changes_nothing(store: Store, samples: Samples, held: Entry, version: int) -> None:
    first = samples.workflow_state(1)
    store.put_workflow_state(held, first, NOON)
    assert store.put_workflow_state(held, samples.workflow_state(version, b"other"), NOON) == Refused(first)
    assert store.get_records(held.id).workflow_state == first


def test_second_version_of_no_document_is_refused(store: Store, samples: Samples, held: Entry) -> None:
    outcome = store.put_workflow_state(held, samples.workflow_state(2), NOON)
    assert isinstance(outcome, Refused)
    assert outcome.current is not None
    assert outcome.current.version == 0
    assert store.get_records(held.id).workflow_state is None


def test_document_under_a_stale_claim_changes_nothing(store: Store, samples: Samples, held: Entry) -> None:
    assert store.put_workflow_state(stale(held), samples.workflow_state(1), NOON) == Refused(None)
    assert store.put_workflow_state(held, samples.workflow_state(1), NOON + LEASE) == Refused(None), (
        "ran out this very moment"
    )
    assert store.get_records(held.id).workflow_state is None
    assert store.put_workflow_state(held, samples.workflow_state(1), NOON + LEASE - 1) == APPLIED


def test_document_of_an_ended_message_is_refused(store: Store, samples: Samples, held: Entry) -> None:
    store.end_entries([held])
    assert store.put_workflow_state(held, samples.workflow_state(1), NOON) == Refused(None)
