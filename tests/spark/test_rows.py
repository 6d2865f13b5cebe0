"""Rows between Spark's stages: what is packed comes back whole, and the report names each row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.message import Draft
from millrace.spark.rows import COPIES, SHAPED, Copy, Position, Reported, Row, RowOutcome, pack, report, unpack


def with_copies(batch: pa.RecordBatch, copies: list[Any] | None = None) -> pa.RecordBatch:
    """As the folding of copies leaves it."""
    column = pa.array(copies or [[]] * batch.num_rows, COPIES)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "copies"])


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
    filtered=st.booleans(),
    copies=st.lists(st.builds(Copy, positions, st.binary(max_size=9)), max_size=3).map(tuple),
).map(lambda row: replace(row, draft=replace(row.draft, once=bool(row.system_key))))


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
    assert batch.schema == SHAPED.schema
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
