"""Rows of a source into drafts: by the same rules as a producer's post, each row with its place."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest

from millrace.model.clock import system_clock
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft
from millrace.spark.row_mapping import Shape, content_key, shape_batches
from millrace.spark.rows import READ, Row, unpack
from tests.spark.test_rows import with_copies

Given = dict[str, Any]


def shape_all(
    definitions: bytes, *batches: list[Given], queue: str = "Jobs", between: int | None = None, columns: bool = False
) -> list[Row]:
    """What a task makes of batches of rows; a field that is not given is null."""
    given = (
        pa.RecordBatch.from_pylist([dict.fromkeys(READ.names) | row for row in rows], schema=READ.schema)
        for rows in batches
    )
    shaped = shape_batches(Shape(definitions, queue, "acme", between, columns), given)
    return [row for batch in shaped for row in unpack(with_copies(batch), "run-1")]


def shape_one(definitions: bytes, queue: str = "Jobs", *, columns: bool = False, **given: Any) -> Row:
    row = {"path": "file", "raw": b"raw", "body": b"{}"} | given
    (shaped,) = shape_all(definitions, [row], queue=queue, columns=columns)
    return shaped


def test_every_field_of_a_row_reaches_its_draft(definitions: bytes) -> None:
    later = system_clock() + 3_600_000
    row = shape_one(
        definitions,
        body=b'{"id": "a"}',
        idempotency_key="order-1",
        key="customer-7",
        priority="high",
        not_before=str(later),
        project="billing",
        labels="blue, eu",
        tenant="other",
        correlation_id="trace-1",
        content_type="application/vnd.acme+json",
    )
    assert row.draft == Draft(
        b'{"id": "a"}',
        "application/vnd.acme+json",
        {},
        "order-1",
        "customer-7",
        100,
        later,
        "billing",
        ("blue", "eu"),
        "trace-1",
        "bulk",
        "",
        "run-1",
    )
    assert (row.tenant, row.id, row.reason) == ("other", keyed_message_id("other", "Jobs", "order-1"), "")


def test_what_a_row_does_not_say_is_left_to_the_queue(definitions: bytes) -> None:
    row = shape_one(definitions, idempotency_key="", key="", priority="", not_before="", content_type="", tenant="")
    assert row.draft == Draft(b"{}", idempotency_key=content_key(b"{}"), source="bulk", run="run-1")
    assert (row.tenant, row.reason) == ("acme", "")


def test_a_row_without_a_key_is_known_by_its_content(definitions: bytes) -> None:
    one, same, other = (shape_one(definitions, body=body) for body in (b"[1]", b"[1]", b"[2]"))
    assert one.draft.idempotency_key == f"content:{sha256(b'[1]').hexdigest()}"
    assert one.id == same.id != other.id


@pytest.mark.parametrize(
    ("given", "value"),
    [("0", 0), ("9999", 9999), ("low", 0), ("critical", 200), (None, None), ("", None)],
)
def test_priorities_are_numbers_or_names(definitions: bytes, given: str | None, value: int | None) -> None:
    assert shape_one(definitions, priority=given).draft.priority == value


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (None, None),
        ("", ()),
        ("a", ("a",)),
        (" a , b ,, ", ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        ("[]", ()),
    ],
)
def test_labels_are_a_list_or_words(definitions: bytes, given: str | None, labels: tuple[str, ...] | None) -> None:
    assert shape_one(definitions, labels=given).draft.labels == labels


def test_times_are_milliseconds_or_rfc_3339(definitions: bytes) -> None:
    assert shape_one(definitions, not_before="1800000000000").reason.startswith("invalid_field: not_before")
    for text in ("0", "2001-09-09T01:46:40Z", "2001-09-09T03:46:40.000+02:00"):
        found = shape_one(definitions, not_before=text)
        assert (found.reason, found.draft.not_before) == ("", 0 if text == "0" else 1_000_000_000_000)


LONG = "x" * 600
BAD: list[tuple[Given, str]] = [
    ({"body": None}, "invalid_field: body: is missing"),
    ({"body": b"no json"}, "invalid_message: body: expected JSON, found not JSON"),
    ({"body": b'{"a": NaN}'}, "invalid_message: body: expected JSON"),
    ({"body": b"[" * 3_000}, "invalid_message: body: expected JSON, found nested"),
    ({"body": b"\xff"}, "invalid_message: body: expected JSON, found not UTF-8"),
    ({"body": b" " * 6_291_457, "content_type": "text/plain"}, "body_too_large"),
    ({"idempotency_key": LONG}, "invalid_field: idempotency_key"),
    ({"idempotency_key": "a\x1fb"}, "invalid_field: idempotency_key"),
    ({"key": "k" * 129}, "invalid_field: key"),
    ({"key": "k\n"}, "invalid_field: key"),
    ({"priority": "10000"}, "invalid_field: priority"),
    ({"priority": "-1"}, "invalid_field: priority"),
    ({"priority": "1.0"}, "invalid_field: priority"),
    ({"priority": "9" * 5_000}, "invalid_field: priority"),
    ({"priority": "urgent"}, "invalid_field: priority"),
    ({"not_before": "tomorrow"}, "invalid_field: not_before: 'tomorrow' is no time"),
    ({"not_before": "2026-11-16T05:00:00"}, "invalid_field: not_before"),
    ({"not_before": "2026-11-16"}, "invalid_field: not_before"),
    ({"not_before": "0001-01-01T00:00:00+14:00"}, "invalid_field: not_before"),
    ({"not_before": "9999-12-31T23:59:59-14:00"}, "invalid_field: not_before"),
    ({"not_before": "9" * 16}, "invalid_field: not_before"),
    ({"not_before": "9" * 5_000}, "invalid_field: not_before"),
    ({"not_before": "-5"}, "invalid_field: not_before"),
    ({"project": "p" * 65}, "invalid_field: project"),
    ({"labels": "[1]"}, "invalid_field: labels: '[1]' is no list of words"),
    ({"labels": '["a", null]'}, "invalid_field: labels"),
    ({"labels": "["}, "invalid_field: labels"),
    ({"labels": "[" * 100_000}, "invalid_field: labels"),
    ({"labels": "two words"}, "invalid_field: labels"),
    ({"labels": ",".join(["l" * 32] * 9)}, "invalid_field: labels"),
    ({"tenant": "no/tenant"}, "invalid_field: tenant"),
    ({"tenant": "t" * 49}, "invalid_field: tenant"),
    ({"problem": "invalid_message: not the columns of the header"}, "invalid_message: not the columns"),
]


@pytest.mark.parametrize(("given", "reason"), BAD, ids=[f"{next(iter(given))}-{n}" for n, (given, _) in enumerate(BAD)])
def test_a_bad_value_rejects_its_row_with_the_reason_and_the_row_as_read(
    definitions: bytes, given: Given, reason: str
) -> None:
    bad, good = shape_all(definitions, [{"raw": b"as read", "body": b"{}"} | given, {"raw": b"r", "body": b"{}"}])
    assert bad.reason.startswith(reason)
    assert (bad.raw, bad.draft.body, bad.draft.idempotency_key) == (b"as read", b"", None)
    assert good.reason == ""


def test_a_correlation_id_that_is_unfit_is_replaced_not_refused(definitions: bytes) -> None:
    assert shape_one(definitions, correlation_id="no good\n").reason == ""


def test_an_ordered_queue_has_its_key_and_takes_no_priority(definitions: bytes) -> None:
    body = b'{"id": "1", "account": "a"}'
    assert shape_one(definitions, "Accounts", body=body).draft.key == "a"
    assert shape_one(definitions, "Accounts", body=body, key="b").draft.key == "b"
    reason = shape_one(definitions, "Accounts", body=body, priority="5").reason
    assert reason.startswith("invalid_field: priority")


# -- a queue with a type, a filter and a key -------------------------------------------------------------------------


def typed(definitions: bytes, message: Any, **given: Any) -> Row:
    return shape_one(definitions, "Typed", body=json.dumps(message).encode(), **given)


def test_a_message_that_fits_its_type_has_the_key_that_the_definition_gives(definitions: bytes) -> None:
    row = typed(definitions, {"id": "a-1", "amount": 3, "kind": "order"})
    assert (row.reason, row.draft.idempotency_key) == ("", "a-1")
    own = typed(definitions, {"id": "a-1", "amount": 3, "kind": "order"}, idempotency_key="mine")
    assert own.draft.idempotency_key == "mine", "what the row says counts first"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"id": "a", "kind": "order"}, "amount"),
        ({"id": "a", "amount": "3", "kind": "order"}, "amount"),
        ({"id": "a", "amount": 3, "kind": "order", "more": 1}, "more"),
        ([1], "no object"),
        ({"amount": "x"}, "; "),
    ],
)
def test_a_message_that_does_not_fit_its_type_is_rejected_with_every_path(
    definitions: bytes, message: Any, says: str
) -> None:
    reason = typed(definitions, message).reason
    assert reason.startswith("invalid_message: ")
    assert says in reason


def test_what_the_filter_leaves_out_is_marked_and_has_the_id_of_its_record(definitions: bytes) -> None:
    row = typed(definitions, {"id": "a", "amount": 3, "kind": "noise"})
    assert (row.filtered, row.reason) == (True, "")
    assert row.id != typed(definitions, {"id": "a", "amount": 3, "kind": "sale"}).id


@pytest.mark.parametrize(("amount", "stored"), [("4388", 4388), (4388, 4388), (4388.0, 4388), ("-7", -7)])
def test_columns_are_brought_to_the_declared_types(definitions: bytes, amount: Any, stored: int) -> None:
    row = typed(definitions, {"id": 17, "amount": amount, "kind": "sale"}, columns=True)
    assert json.loads(row.draft.body) == {"id": "17", "amount": stored, "kind": "sale"}
    assert row.draft.idempotency_key == "17"


@pytest.mark.parametrize("amount", ["much", "4388.5", 4388.5, "", None, True, "0x1f", "1_000"])
def test_a_column_that_is_not_of_its_type_rejects_the_row(definitions: bytes, amount: Any) -> None:
    reason = typed(definitions, {"id": "a", "amount": amount, "kind": "sale"}, columns=True).reason
    assert reason.startswith("invalid_message: amount: expected an int")


def test_json_lines_are_checked_and_not_changed(definitions: bytes) -> None:
    assert "amount" in typed(definitions, {"id": "a", "amount": "4388", "kind": "sale"}).reason


# -- places ----------------------------------------------------------------------------------------------------------


def places(rows: list[Row]) -> list[tuple[str, int, int]]:
    return [(row.position.path, row.position.block, row.position.offset) for row in rows]


def line(text: bytes, path: str = "a", block: int = 0) -> Given:
    return {"path": path, "block": block, "raw": text, "body": text}


def test_offsets_of_lines_count_bytes_over_batches_blank_lines_and_parts(definitions: bytes) -> None:
    rows = shape_all(
        definitions,
        [line(b"{}"), line(b""), line(b"\r"), line(b'{"\xc3\xa9": 1}')],
        [line(b"{}"), line(b"no json"), line(b"{}", block=4_096), line(b"{}", block=4_096)],
        [line(b" "), line(b"{}", "b"), line(b"{}")],
        between=1,
    )
    assert places(rows) == [
        ("a", 0, 0),
        ("a", 0, 3 + 1 + 2),
        ("a", 0, 6 + 10),
        ("a", 0, 16 + 3),
        ("a", 4_096, 0),
        ("a", 4_096, 3),
        ("b", 0, 0),
        ("a", 0, 0),
    ]
    assert [bool(row.reason) for row in rows] == [n == 3 for n in range(8)]


def test_a_file_cut_anywhere_gives_the_same_lines_at_their_bytes(definitions: bytes) -> None:
    text = b'{"n":1}\n\n{"n":22}\r\nbad\n{"n":333}'
    rows = shape_all(definitions, [line(part) for part in text.split(b"\n")], between=1)
    for row in rows:
        raw = row.raw or row.draft.body
        assert text[row.position.offset :].startswith(raw)
    assert len(rows) == 4


def test_offsets_of_other_sources_count_rows_or_are_given(definitions: bytes) -> None:
    row = {"path": "a", "raw": b"", "body": b"{}"}
    counted = shape_all(definitions, [row, row], [row, {**row, "path": "b"}])
    assert places(counted) == [("a", 0, 0), ("a", 0, 1), ("a", 0, 2), ("b", 0, 0)], "an empty row is one, too"
    assert places(shape_all(definitions, [{**row, "offset": 17}, {**row, "offset": 4}])) == [("a", 0, 17), ("a", 0, 4)]


def test_rejected_rows_are_spread_by_their_place(definitions: bytes) -> None:
    rows = shape_all(definitions, [line(b"bad")] * 50, between=1)
    assert len({row.id for row in rows}) == 50
    assert {row.id for row in rows} == {row.id for row in shape_all(definitions, [line(b"bad")] * 50, between=1)}


def test_nothing_but_blank_lines_gives_nothing(definitions: bytes) -> None:
    assert shape_all(definitions, [line(b""), line(b" ")], [], between=1) == []
