"""Nouns become items and come back the same; a claim and a hold change their own attributes only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.keys import WITHDRAWN
from millrace.model.message import Body, Place, WorkflowState
from millrace.stores.dynamodb import items
from tests.stores.samples import Samples, claimed
from tests.stores.sizes import item_bytes, largest_entry

SAMPLES = Samples("items")


def test_largest_entry_fits_one_write_unit() -> None:
    assert item_bytes(items.entry_item(largest_entry())) < 1024


@pytest.mark.parametrize("labels", [(), ("blue", "eu:west")])
def test_an_entry_comes_back_the_same(labels: tuple[str, ...]) -> None:
    entry = claimed(SAMPLES.entry(labels=labels))
    assert items.entry_of(items.entry_item(entry)) == entry


def test_a_claim_changes_what_a_hold_changes_and_its_counters() -> None:
    """What else an entry says is written once: a claim from a stale read cannot bring it back."""
    entry = SAMPLES.entry()
    held, taken = items.held_attributes(entry), items.claim_attributes(entry)
    assert held.keys() == {"due", "token", "until", "since", "owner"}
    assert taken.keys() == held.keys() | {"version", "attempts", "deliveries"}
    assert taken.items() <= items.entry_item(entry).items()


@pytest.mark.parametrize(
    "body",
    [Body(), Body(b"\x00\xff", size=2), Body(b"z", "zlib", size=9), Body(blob="b/1", size=99, digest=b"d" * 32)],
    ids=["empty", "bytes", "packed", "in a blob"],
)
def test_a_message_comes_back_the_same(body: Body) -> None:
    message = SAMPLES.message(body=body)
    assert items.message_of(items.message_item(message), message.id) == message


def test_what_is_empty_in_a_message_takes_no_room() -> None:
    bare = SAMPLES.message(headers={}, correlation_id="", idempotency_key="", source="", origin="", run="")
    item = items.message_item(bare)
    assert not item.keys() & {"headers", "packing", "corr", "idem", "source", "origin", "run", "blob", "digest"}
    assert items.message_of(item, bare.id) == bare


def test_records_are_all_that_lies_under_a_message_s_id() -> None:
    message = SAMPLES.message()
    location = SAMPLES.moved(SAMPLES.entry(id=message.id))[1]
    result, state = SAMPLES.result(message.id), WorkflowState(b"step", 3, 99, "nonce")
    every = [
        items.message_item(message),
        items.location_item(location),
        items.result_item(result),
        items.workflow_state_item(message.id, state),
    ]
    found = items.records_of(every, message.id)
    assert (found.message, found.location, found.result, found.workflow_state) == (message, location, result, state)
    nothing = items.records_of([], message.id)
    assert (nothing.message, nothing.location, nothing.result, nothing.workflow_state) == (None, None, None, None)


def test_the_marker_of_a_withdrawn_entry_is_no_message() -> None:
    message = SAMPLES.message()
    marker = replace(message, place=Place(message.place.pk, WITHDRAWN))
    assert items.records_of([items.message_item(marker)], message.id).message is None


def test_a_location_without_a_place_comes_back_without_one() -> None:
    dead_letter = SAMPLES.dead_letter()
    location = SAMPLES.buried(dead_letter)
    assert items.location_of(items.location_item(location), location.id) == location
