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
from millrace.spark.row_mapping import Shape, content_key, fold_batches, name_batches, shape_batches
from millrace.spark.rows import READ, Row, unpack
from tests.spark.test_rows import with_copies

Given = dict[str, Any]


def shape_all(
    definitions: bytes, *batches: list[Given], queue: str = "Jobs", lines: bool = False, columns: bool = False
) -> list[Row]:
    """What a task makes of batches of rows; a field that is not given is null."""
    given = (
        pa.RecordBatch.from_pylist([dict.fromkeys(READ.names) | row for row in rows], schema=READ.schema)
        for rows in batches
    )
    shaped = shape_batches(Shape(definitions, queue, "acme", lines, columns), given)
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


def test_a_row_keeps_the_place_that_its_source_gives_it(definitions: bytes) -> None:
    row = {"path": "a", "raw": b"", "body": b"{}"}
    given = shape_all(definitions, [{**row, "offset": 17, "block": 4_096}, {**row, "offset": 4}])
    assert places(given) == [("a", 4_096, 17), ("a", 0, 4)]


def test_rejected_rows_are_spread_by_their_place(definitions: bytes) -> None:
    bad = [line(b"bad") | {"offset": number} for number in range(50)]
    rows = shape_all(definitions, bad, lines=True)
    assert len({row.id for row in rows}) == 50
    assert {row.id for row in rows} == {row.id for row in shape_all(definitions, bad, lines=True)}


def test_nothing_but_blank_lines_gives_nothing(definitions: bytes) -> None:
    assert shape_all(definitions, [line(b""), line(b" ")], [], lines=True) == []


# -- names and copies ------------------------------------------------------------------------------------------------


def read_batch(*rows: Given, **more: list[Any]) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(READ.names) | row for row in rows], schema=READ.schema)
    for name, values in more.items():
        batch = pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(values, pa.string())], names=[*batch.schema.names, name]
        )
    return batch


@pytest.mark.parametrize(
    ("queue", "columns", "known"), [("Jobs", False, True), ("Jobs", True, True), ("Typed", False, False)]
)
def test_spark_names_rows_where_no_expression_of_ours_does(
    definitions: bytes, queue: str, columns: bool, known: bool
) -> None:
    assert Shape(definitions, queue, "acme", False, columns).spark_knows_keys is known


def test_typed_columns_change_a_body_so_its_hash_is_ours_to_take(definitions: bytes) -> None:
    assert Shape(definitions, "Accounts", "acme").spark_knows_keys
    assert not Shape(definitions, "Accounts", "acme", bodies_are_columns=True).spark_knows_keys


def test_rows_of_one_message_have_one_name(definitions: bytes) -> None:
    sale = b'{"id": "a", "amount": 1, "kind": "sale"}'
    noise = b'{"id": "a", "amount": 1, "kind": "noise"}'
    given = read_batch(
        {"body": sale}, {"body": noise}, {"body": sale, "idempotency_key": "own"}, {"body": b"bad"}, {"body": None}
    )
    (named,) = name_batches(Shape(definitions, "Typed", "acme"), [given])
    assert named.column("name").to_pylist() == ["a", "a", "own", "-", "-"]
    assert named.select(READ.names).equals(given), "the row goes through as it is"


def test_later_rows_of_a_message_are_copies_of_the_first(definitions: bytes) -> None:
    sale = b'{"id": "a", "amount": 1, "kind": "sale"}'
    other = b'{"id": "a", "amount": 2, "kind": "sale"}'
    noise = b'{"id": "a", "amount": 1, "kind": "noise"}'
    rows = [{"body": body, "offset": n, "path": "f"} for n, body in enumerate((sale, noise, other, b"bad", sale))]
    first = read_batch(*rows[:2], name=["a", "a"])
    second = read_batch(*rows[2:], {"body": sale, "tenant": "other"}, name=["a"] * 4)
    folded = list(fold_batches(Shape(definitions, "Typed", "acme"), "run-1", [first, second]))
    assert [(row.tenant, row.position.offset, [copy.position.offset for copy in row.copies]) for row in folded] in (
        [("acme", 3, []), ("acme", 0, [2, 4]), ("acme", 1, []), ("other", 0, [])],
        [("acme", 3, []), ("acme", 1, []), ("acme", 0, [2, 4]), ("other", 0, [])],
    )
    (winner,) = [row for row in folded if row.copies]
    assert [copy.body for copy in winner.copies] == [other, sale]
    assert winner.draft.run == "run-1"
    assert winner.checked is not None
    assert winner.checked.id == winner.id


def test_a_row_without_a_body_or_raw_text_is_rejected_and_not_lost(definitions: bytes) -> None:
    (row,) = fold_batches(Shape(definitions, "Jobs", "acme"), "r", [read_batch({"path": "f"}, name=["-"])])
    assert "body" in row.reason
