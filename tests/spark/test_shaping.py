"""Rows of a source into drafts: by the same rules as a producer's post, each row with its place."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.clock import system_clock
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft
from millrace.spark.row_mapping import FIELDS, Shape, content_key, shape_batches
from millrace.spark.rows import COPIES, SHAPED, Copy, Position, Reported, Row, RowOutcome, pack, report, unpack

INPUT = pa.schema(
    [
        (
            name,
            {"block": pa.int64(), "offset": pa.int64(), "raw": pa.binary(), "body": pa.binary()}.get(name, pa.string()),
        )
        for name in FIELDS
    ]
)
Given = dict[str, Any]


def shape_all(definitions: bytes, *batches: list[Given], queue: str = "Jobs", between: int | None = None) -> list[Row]:
    """What a task makes of batches of rows; a field that is not given is null."""
    given = (
        pa.RecordBatch.from_pylist([dict.fromkeys(FIELDS) | row for row in rows], schema=INPUT) for rows in batches
    )
    shaped = shape_batches(Shape(definitions, queue, "acme", between), given)
    return [row for batch in shaped for row in unpack(with_copies(batch), "run-1")]


def with_copies(batch: pa.RecordBatch, copies: list[Any] | None = None) -> pa.RecordBatch:
    """As the folding of copies leaves it."""
    column = pa.array(copies or [[]] * batch.num_rows, COPIES)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "copies"])


def shape_one(definitions: bytes, queue: str = "Jobs", **given: Any) -> Row:
    (row,) = shape_all(definitions, [{"path": "file", "raw": b"raw", "body": b"{}"} | given], queue=queue)
    return row


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


def test_an_ordered_queue_asks_for_a_key_and_no_priority(definitions: bytes) -> None:
    assert shape_one(definitions, "Accounts").reason.startswith("invalid_field: key: is missing")
    assert shape_one(definitions, "Accounts", key="a").reason == ""
    assert shape_one(definitions, "Accounts", key="a", priority="5").reason.startswith("invalid_field: priority")


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


def test_what_the_filter_leaves_out_is_rejected_and_says_so(definitions: bytes) -> None:
    row = typed(definitions, {"id": "a", "amount": 3, "kind": "noise"})
    assert row.reason == "filtered: the queue's filter leaves it out"


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


# -- on the way between tasks ----------------------------------------------------------------------------------------

texts = st.text("aé✓\n\0 ", max_size=4)
drafts = st.builds(
    Draft,
    body=st.binary(max_size=9),
    content_type=texts.filter(bool),
    headers=st.dictionaries(texts.filter(bool), texts, max_size=2),
    idempotency_key=st.none() | texts,
    key=texts,
    priority=st.none() | st.integers(0, 9_999),
    not_before=st.none() | st.integers(0, 2**53),
    project=st.none() | texts,
    labels=st.none() | st.lists(texts, max_size=3).map(tuple),
    correlation_id=st.none() | texts,
    source=texts.filter(bool),
    origin=texts,
    run=st.just("run-1"),
)
positions = st.builds(Position, texts, st.integers(0, 2**53), st.integers(0, 2**53))
rows_of_any_kind = st.builds(
    Row,
    positions,
    texts,
    texts,
    drafts,
    system_key=texts,
    dead_letter=texts,
    reason=texts,
    raw=st.binary(max_size=9),
    copies=st.lists(st.builds(Copy, positions, st.binary(max_size=9)), max_size=3).map(tuple),
)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(rows_of_any_kind, max_size=3))
def test_a_row_survives_its_way_between_tasks(rows: list[Row]) -> None:
    copies = [
        [
            {"path": c.position.path, "block": c.position.block, "offset": c.position.offset, "body": c.body}
            for c in row.copies
        ]
        for row in rows
    ]
    batch = pack(rows)
    assert batch.schema == SHAPED
    assert unpack(with_copies(batch, copies), "run-1") == rows


def test_the_report_names_each_row_and_keeps_what_was_read_of_rejected_ones() -> None:
    draft = Draft(b"body", idempotency_key="k")
    row = Row(Position("a", 1, 2), "acme", "id-1", draft, copies=(Copy(Position("b", 3, 4), b"copy"),))
    bad = Row(Position("a", 1, 9), "acme", "name", Draft(b""), reason="malformed", raw=b"\xff")
    lines = [
        Reported(row, RowOutcome.INSERTED),
        Reported(row, RowOutcome.CONFLICT, "why", row.copies[0]),
        Reported(bad, RowOutcome.REJECTED, "malformed"),
        Reported(row, RowOutcome.REJECTED, "refused"),
        Reported(row, RowOutcome.REJECTED, "refused", row.copies[0]),
    ]
    found = [tuple(line.values()) for line in report(lines).to_pylist()]
    assert found == [
        ("a", 1, 2, "acme", "id-1", "k", "inserted", None, None),
        ("b", 3, 4, "acme", "id-1", "k", "conflict", "why", None),
        ("a", 1, 9, "acme", None, None, "rejected", "malformed", b"\xff"),
        ("a", 1, 2, "acme", None, "k", "rejected", "refused", b"body"),
        ("b", 3, 4, "acme", None, "k", "rejected", "refused", b"copy"),
    ]
