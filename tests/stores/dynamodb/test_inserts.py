"""An insert as text says what the same insert says as dictionaries: to the client, to the engine, to the meter."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.message import Body, Entry, Message, Place
from millrace.spark.metered_client import units_of
from millrace.stores.dynamodb import inserts
from millrace.stores.dynamodb.client import EncodedStatement
from millrace.stores.dynamodb.conditions import ABSENT
from millrace.stores.dynamodb.inserts import insert_of_entry, insert_of_message
from millrace.stores.dynamodb.items import entry_item, message_item
from millrace.stores.dynamodb.minimal_client import encode_request
from millrace.stores.dynamodb.writes import BatchedWrite, put
from tests.stores.samples import Samples
from tests.stores.sizes import item_bytes

SAMPLES = Samples("inserts")
TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(['"', "\\", "@id@", "%s", "%", "\u2028é😀"])
NUMBER = st.integers(0, 10**13)
PLACE = st.builds(Place, st.builds("Q#{}#q#{}".format, TEXT, st.integers(0, 999)), TEXT)
ENTRIES = st.builds(
    Entry, PLACE, id=TEXT, nonce=TEXT, enqueued_at=NUMBER, expires_at=NUMBER, priority=NUMBER, correlation_id=TEXT,
    key=TEXT, project=TEXT, labels=st.lists(TEXT).map(tuple), due=NUMBER, attempts=NUMBER, deliveries=NUMBER,
    version=NUMBER, token=TEXT, until=NUMBER, since=NUMBER, owner=TEXT,
)  # fmt: skip
BODIES = st.builds(
    Body, st.binary(max_size=2000), st.sampled_from(["", "zlib"]), size=NUMBER, encrypted=st.booleans()
) | st.builds(Body, blob=TEXT, digest=st.binary(max_size=16), size=NUMBER)
MESSAGES = st.builds(
    Message, id=TEXT, tenant=TEXT, queue=TEXT, nonce=TEXT, place=PLACE, body=BODIES, content_type=TEXT,
    received_at=NUMBER, dedupe_until=NUMBER, ttl=NUMBER, headers=st.dictionaries(TEXT, TEXT, max_size=1),
    correlation_id=TEXT, idempotency_key=TEXT, source=TEXT, origin=TEXT, run=TEXT, key=TEXT, project=TEXT,
)  # fmt: skip


def _batch(*statements: Any, **arguments: Any) -> bytes:
    return encode_request({"Statements": list(statements), **arguments})


def says_the_same(write: BatchedWrite, item: dict[str, Any]) -> None:
    usual = put("table", item, ABSENT)
    statement: Any = write.statement()
    assert json.loads(_batch(statement)) == json.loads(_batch(usual.statement()))
    assert {name: statement[name] for name in ("Statement", "Parameters")} == usual.statement()
    assert (write.table, write.place, write.key) == (usual.table, usual.place, usual.key)
    if isinstance(statement, EncodedStatement):
        assert statement.units == units_of(usual.statement())


@settings(max_examples=40)
@given(ENTRIES)
def test_an_entry_as_text_is_the_entry(entry: Entry) -> None:
    if item_bytes(entry_item(entry)) <= 1024:
        says_the_same(insert_of_entry("table", entry), entry_item(entry))


@settings(max_examples=60)
@given(MESSAGES)
def test_a_message_as_text_is_the_message(message: Message) -> None:
    says_the_same(insert_of_message("table", message), message_item(message))


@pytest.mark.parametrize("name", ["a-table.of_mine", "100%", "@id@"])
def test_a_table_may_have_any_name(name: str) -> None:
    entry = SAMPLES.entry()
    assert insert_of_entry(name, entry).statement()["Parameters"] == [*entry_item(entry).values()]


def test_an_attribute_that_the_text_does_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be left out of every message of a batch, and of no other."""
    monkeypatch.setattr(inserts, "entry_item", lambda entry: {**entry_item(entry), "new": {"S": entry.owner}})
    with pytest.raises(AssertionError, match="'owner', 'owner'"):
        insert_of_entry("another-table", SAMPLES.entry())


def test_every_field_is_tried() -> None:
    """An attribute that only some items have is noticed by a sample that has it."""
    assert {one.name for one in fields(Entry)} == {"place", *inserts._ENTRY} - {"pk", "sk"}
    assert {one.name for one in fields(Body)} == {"data", "packing", "blob", "size", "digest", "encrypted"}
    known = {*inserts._MESSAGE, *inserts._OPTIONAL, *inserts._SHARED, "ttl", "id", "place", "body", "headers"}
    assert {one.name for one in fields(Message)} == known - {"pk", "sk", "shard", "size", "data", "packing"}


def test_a_value_that_says_what_a_mark_says_is_a_value() -> None:
    message = replace(SAMPLES.message(), content_type="@key@", run="@nonce@", source="100%s", headers={})
    assert isinstance(insert_of_message("table", message).statement(), EncodedStatement)
    says_the_same(insert_of_message("table", message), message_item(message))


def test_a_batch_of_texts_and_dictionaries_is_one_request() -> None:
    one, other = (insert_of_message("table", SAMPLES.message()).statement() for _ in range(2))
    plain = put("table", entry_item(SAMPLES.entry()), ABSENT).statement()
    sent = json.loads(_batch(one, plain, other, ReturnConsumedCapacity="TOTAL"))
    assert sent["ReturnConsumedCapacity"] == "TOTAL"
    assert [json.dumps(part) for part in sent["Statements"]] == [
        json.dumps(json.loads(part.text if isinstance(part, EncodedStatement) else encode_request(part)))
        for part in (one, plain, other)
    ]


def test_a_body_in_a_blob_is_written_as_before() -> None:
    message = replace(SAMPLES.message(), body=Body(blob="b/1", size=99, digest=b"d"))
    assert isinstance(insert_of_message("table", message).statement(), dict)
