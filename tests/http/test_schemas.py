"""What is shown of a thing is what its schema describes, member by member."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus
from millrace.http import schemas
from millrace.model.cursor import Page
from millrace.model.message import Attempt, Body, DeadLetter, DeadLetterReason, Entry, Message, Place

MESSAGE = Message("m1", "acme", "Jobs", "n", Place("p", "s"), Body(size=3), "text/plain", 1_000, 2_000, 3)
ENTRY = Entry(Place("p", "s"), "m1", "n", 1_000, 2_000, 5, "c", labels=("a",))
DEAD_LETTER = DeadLetter(MESSAGE, 1_000, DeadLetterReason.EXHAUSTED, "e", "E", 3, 3, 5, "k", "p", ("a",), (), 9)
ATTEMPT = Attempt(1, 1, "w", 1_000, 2_000, "E", "e")
RECEIPT = Receipt("m1", "c", "k", False, MessageStatus.READY)


@pytest.mark.parametrize(
    ("shown", "schema"),
    [
        (schemas.show_entry(ENTRY), schemas.ENTRY),
        (schemas.show_attempt(ATTEMPT), schemas.ATTEMPT),
        (schemas.show_dead_letter(DEAD_LETTER), schemas.DEAD_LETTER),
        (schemas.show_receipt(RECEIPT), schemas.RECEIPT),
    ],
    ids=["entry", "attempt", "dead letter", "receipt"],
)
def test_what_is_shown_fits_its_schema(shown: dict[str, Any], schema: dict[str, Any]) -> None:
    jsonschema.validate(shown, schema)


def test_a_page_is_shown_as_it_is_described() -> None:
    response = schemas.show_page("claims", Page((ENTRY,), "next"), schemas.show_entry)
    jsonschema.validate(response.document, schemas.page_of("Claims", "claims", schemas.ENTRY))
    assert (len(response.document["claims"]), response.document["next"]) == (1, "next")


def test_an_item_of_a_batch_is_a_success_or_a_problem() -> None:
    described = schemas.items_of("Test", {"a": schemas.number()})
    refused = {"type": "t", "title": "t", "status": 404, "code": "not_found", "correlation_id": "c"}
    jsonschema.validate({"items": [{"http_status": 200, "a": 1}, {"http_status": 404, "problem": refused}]}, described)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"items": [{"http_status": 200}]}, described)


def test_a_dead_letters_id_needs_no_escaping_in_a_path() -> None:
    assert schemas.dead_letter_id("1800000000000#m1") == "1800000000000.m1"
