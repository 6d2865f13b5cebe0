"""What an erasure is about: whose messages are meant, and how it is told without naming them."""

from __future__ import annotations

from hashlib import sha256

import pytest

from millrace.model.erasures import EraseBy, Selection, read_selection
from millrace.model.message import Place
from millrace.stores.scanned import ScannedMessage

HERS = ScannedMessage("m1", "Jobs", "n", Place("p", "s"), 0, "m1", key="alice", project="billing")


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        (Selection(EraseBy.KEY, "alice"), True),
        (Selection(EraseBy.KEY, "alice", "Jobs"), True),
        (Selection(EraseBy.KEY, "alice", "Other"), False),
        (Selection(EraseBy.KEY, "billing"), False),
        (Selection(EraseBy.PROJECT, "billing"), True),
        (Selection(EraseBy.PROJECT, "alice"), False),
        (Selection(EraseBy.TENANT), True),
        (Selection(EraseBy.TENANT, queue="Other"), False),
    ],
)
def test_whose_a_message_is(selection: Selection, meant: bool) -> None:
    assert selection.matches(HERS) is meant


@pytest.mark.parametrize("by", EraseBy)
def test_a_selection_is_written_and_read_and_told_without_a_name(by: EraseBy) -> None:
    selection = Selection(by, "" if by is EraseBy.TENANT else "alice", "Jobs")
    assert read_selection(selection.written()) == selection
    named = by in (EraseBy.KEY, EraseBy.PROJECT, EraseBy.IDEMPOTENCY_KEY)
    assert selection.named == ("alice" if named else "")
    assert (selection.hidden().value == f"sha256:{sha256(b'alice').hexdigest()}") is named
