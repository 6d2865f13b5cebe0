"""A run's plan: copies folded, tasks by the size of the source, rates shared out, counts added up."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from millrace.spark import bulk_write
from millrace.spark.adaptive_throttle import Spending
from millrace.spark.bulk_write import (
    COLLECT_EVERY,
    RunCountsParam,
    WritePlan,
    fold_copies,
    rare_collections,
    spent,
    task_count,
    write_batches,
)
from millrace.spark.connection import TableConnection, Tables
from millrace.spark.metered_client import MeteredClient
from millrace.spark.row_mapping import Shape, shape_batches
from millrace.spark.rows import READ, SHAPED
from millrace.spark.writer import Writing
from tests.conftest import Bench
from tests.spark.test_rows import with_copies

pytestmark = pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")


def test_counts_of_tasks_add_up_by_name() -> None:
    param = RunCountsParam()
    total = param.zero({"inserted": 1})
    total = param.addInPlace(total, {"inserted": 2, "units": 1.5})
    total = param.addInPlace(total, {"inserted": 1, "failed": 1})
    assert total == {"inserted": 3, "units": 1.5, "failed": 1}


def test_what_was_spent_is_counted_beside_the_outcomes() -> None:
    assert spent(Spending()) == {"units": 0, "throttled": 0.0, "throttled_s": 0.0, "waited_s": 0.0}


def test_a_number_of_tasks_that_was_given_is_the_number() -> None:
    rows: Any = None
    assert task_count(rows, 7) == 7


class Counted:
    """Spark's accumulator, without Spark."""

    def __init__(self) -> None:
        self.value: dict[str, float] = {}

    def add(self, counted: dict[str, float]) -> None:
        self.value = RunCountsParam().addInPlace(self.value, counted)


def test_a_task_reports_each_row_and_counts_it(
    memory_bench: Bench, definitions: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = None
    metered = MeteredClient(client)
    monkeypatch.setattr(bulk_write, "connect", lambda _connection: Tables(memory_bench.runtime, metered))
    shape = Shape(definitions, "Jobs", memory_bench.tenant)
    plan = WritePlan(TableConnection("q", "d", "b"), shape, Writing("run-1"), units_per_s=5.0)
    counted: Any = Counted()
    read = [{"raw": body, "body": body} for body in (b'{"id": "a"}', b'{"id": "b"}', b"no JSON")]
    shaped = shape_batches(shape, [pa.RecordBatch.from_pylist(read, READ.schema)])
    rows = [row for batch in write_batches(plan, counted, map(with_copies, shaped)) for row in batch.to_pylist()]
    assert sorted(row["outcome"] for row in rows) == ["inserted", "inserted", "rejected"]
    assert {name: counted.value[name] for name in ("inserted", "rejected", "units")} == {
        "inserted": 2,
        "rejected": 1,
        "units": 0,
    }
    assert metered.throttle is not None, "the task's share of the rate is its client's"


@pytest.mark.spark
def test_later_rows_of_an_id_are_copies_of_the_first(spark: Any) -> None:
    blank = dict.fromkeys(SHAPED.names)
    rows = [
        blank | {"tenant": "t", "id": id_, "path": "f", "block": 0, "offset": offset, "body": body}
        for id_, offset, body in (("a", 2, b"third"), ("a", 0, b"first"), ("b", 3, b"other"), ("a", 1, b"second"))
    ]
    folded = fold_copies(spark.createDataFrame([tuple(row.values()) for row in rows], SHAPED.ddl), 3).collect()
    assert {row["id"]: (row["offset"], [bytes(copy["body"]) for copy in row["copies"]]) for row in folded} == {
        "a": (0, [b"second", b"third"]),
        "b": (3, []),
    }


@pytest.mark.spark
def test_tasks_go_by_the_size_of_the_source_and_leave_no_core_idle(spark: Any) -> None:
    slots = spark.sparkContext.defaultParallelism
    assert task_count(spark.range(10), None) == slots
    many = task_count(spark.range(10**9), None)
    assert many > slots
    assert many % slots == 0, "the last round is a whole one"


def test_a_task_leaves_python_s_collector_as_it_was() -> None:
    usual = gc.get_threshold()
    with suppress(OSError), rare_collections():
        assert gc.get_threshold()[0] == COLLECT_EVERY > usual[0]
        raise OSError
    assert gc.get_threshold() == usual
