"""A sink's tasks: rows of any columns, and counts that add up whoever met a copy."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millrace.model.errors import InvalidField
from millrace.spark import sink
from millrace.spark.bulk_write import WritePlan
from millrace.spark.connection import TableConnection, Tables
from millrace.spark.metered_client import MeteredClient
from millrace.spark.row_mapping import Shape
from millrace.spark.sink import TaskCounts, count_all, demand_columns, read_columns, write_task
from millrace.spark.writer import Writing
from tests.conftest import Bench


def test_a_message_that_several_tasks_hold_inserted_was_inserted_once() -> None:
    one = TaskCounts("r", {"inserted": 3, "duplicate": 1, "rejected": 1}, {"a", "b", "c"})
    two = TaskCounts("r", {"inserted": 2, "conflict": 1}, {"b", "d"})
    counts = count_all([one, two])
    assert {name: count for name, count in counts.items() if count} == {
        "inserted": 4,
        "duplicate": 2,
        "conflict": 1,
        "rejected": 1,
    }
    assert sum(counts.values()) == 8


def test_a_row_is_its_own_body_and_its_columns_are_fields() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    batch = pa.RecordBatch.from_pylist(
        [{"id": 7, "at": moment, "day": date(2026, 1, 2), "sum": Decimal("1.10"), "raw": b"\xff", "tags": ["a", "b"]}]
    )
    (row,) = read_columns(batch, {"idempotency_key": "id", "not_before": "at", "labels": "tags"}).to_pylist()
    assert (row["idempotency_key"], row["not_before"]) == ("7", str(round(moment.timestamp() * 1000)))
    assert json.loads(row["labels"]) == ["a", "b"]
    assert json.loads(row["body"]) == {
        "id": 7, "at": "2026-01-02T03:04:05.000Z", "day": "2026-01-02", "sum": "1.10", "raw": "/w==",
        "tags": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(("given", "body"), [("é", "é".encode()), (b"\xff", b"\xff"), (None, None), ([1], b"[1]")])
def test_a_body_of_its_own_stays_as_it_is(given: Any, body: bytes | None) -> None:
    batch = pa.RecordBatch.from_pylist([{"b": given}])
    (row,) = read_columns(batch, {"body": "b"}).to_pylist()
    assert row["body"] == body


def test_fields_and_columns_that_are_not_there_are_refused() -> None:
    demand_columns(["a"], {"key": "a"})
    with pytest.raises(InvalidField, match="colour"):
        demand_columns(["a"], {"colour": "a"})
    with pytest.raises(InvalidField, match="'b'"):
        demand_columns(["a"], {"key": "b"})


def test_a_task_writes_and_counts_and_its_repeat_counts_the_same(
    memory_bench: Bench, definitions: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = None
    tables = Tables(memory_bench.runtime, MeteredClient(client))
    monkeypatch.setattr(sink, "connect", lambda _connection: tables)
    shape = Shape(definitions, "Jobs", memory_bench.tenant)
    plan = WritePlan(TableConnection("q", "d", "b"), shape, Writing("run-1"))
    rows = [("a", "{}"), ("b", "{}"), ("a", "{}"), ("a", "[]"), ("c", "bad")]
    batch = pa.RecordBatch.from_pylist([{"id": id_, "body": body} for id_, body in rows])
    fields = {"idempotency_key": "id", "body": "body"}
    tasks = [write_task(plan, fields, [batch]) for _ in range(2)]
    for task in tasks:
        assert task.counts == {"inserted": 2, "duplicate": 1, "conflict": 1, "rejected": 1}
        assert [row["raw"] for row in task.rejected] == ["bad"]
    assert tasks[0].inserted == tasks[1].inserted
    assert len(tasks[0].inserted) == 2
