"""The views and the figures against plain Python, over messages that the engine has lived through."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.spark.data.message_rows import LIFE_DDL, pack_lives, with_times
from millrace.spark.page.figures import collect_figures
from millrace.spark.page.views import RETRY_UNITS, VIEWS, register_views
from tests.spark.page.lived import live_through

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
SLA_S = 60.0


def lake_of(spark: Any, rows: list[dict[str, Any]], folder: Path) -> Any:
    pq.write_table(pa.Table.from_batches([pack_lives(rows)]), folder / "lives.parquet")
    return with_times(spark.read.schema(LIFE_DDL).parquet(str(folder)))


def test_figures_are_what_plain_python_counts(spark: Any, tmp_path: Path) -> None:
    rows = live_through(600)
    messages = lake_of(spark, rows, tmp_path)
    found = collect_figures(messages, "All", sla_s=SLA_S)
    totals = Counter(row["status"] for row in rows)
    assert (found.totals["messages"], found.totals["done"], found.totals["dead"]) == (
        600,
        totals["done"],
        totals["dead"],
    )
    assert found.totals["dead"] > 0
    assert sum(row["arrived"] for row in found.flow) == 600
    assert sum(row["dead"] for row in found.flow) == totals["dead"]

    of_queue = defaultdict(list)
    for row in rows:
        of_queue[row["queue"]].append(row)
    for line in found.latency:
        took = [
            (row["ended_at"] - row["received_at"]) / 1000 for row in of_queue[line["queue"]] if row["status"] == "done"
        ]
        assert (line["messages"], line["known"]) == (len(of_queue[line["queue"]]), len(took))
        assert float(line["done_p50"]) == pytest.approx(median(took))
        assert line["start_p50"] <= line["done_p50"] <= line["done_p99"]

    clusters = Counter((row["queue"], row["fingerprint"]) for row in rows if row["fingerprint"])
    assert {(row["queue"], row["fingerprint"]): row["messages"] for row in found.failures} == dict(
        clusters.most_common(12)
    )
    retries = sum(max(0, row["attempts"] - (row["status"] == "dead")) for row in rows)
    assert sum(row["retry_units"] for row in found.retries) == RETRY_UNITS * retries
    assert sum(row["write_units"] for row in found.retries) == sum(row["write_units"] for row in rows)

    first: set[tuple[str, bytes]] = set()
    copies: Counter[tuple[str, str]] = Counter()
    for row in sorted(rows, key=lambda row: (row["received_at"], row["message_id"])):
        body = row["queue"], row["body"]
        copies[row["queue"], row["source"]] += body in first
        first.add(body)
    assert {(row["queue"], row["source"]): row["copies"] for row in found.copies} == {
        k: n for k, n in copies.items() if n
    }

    late = [row for row in rows if row["status"] == "done" and row["ended_at"] - row["received_at"] > SLA_S * 1000]
    breaches = Counter(row["queue"] for row in late) + Counter(row["queue"] for row in rows if row["status"] == "dead")
    counted: Counter[str] = Counter()
    for row in found.breaches:
        counted[row["queue"]] += row["messages"]
    assert counted == breaches
    assert found.first_at.timestamp() <= found.last_at.timestamp()


def test_views_are_registered_under_their_names(spark: Any, tmp_path: Path) -> None:
    messages = lake_of(spark, live_through(30), tmp_path)
    names = register_views(messages, sla_s=1, step_s=60)
    assert names == ["millrace_messages", *(f"millrace_{name}" for name in VIEWS)]
    for name in names:
        assert spark.table(name).count() >= 0
