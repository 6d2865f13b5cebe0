"""Plots as SVG: strangers' texts are text in them, and they are the same every time."""

from __future__ import annotations

from datetime import datetime

import pytest

from millrace.spark.page.charts import BLUE, duration, flow_chart, latency_chart, plain, stacked_bars
from millrace.spark.page.figures import ReportFigures

HOSTILE = "<script>alert(1)</script>"


def test_labels_are_escaped_and_no_mathematics() -> None:
    labels = [HOSTILE, r"$\frac{broken$", "日本語 \x00\x07\u202e", "x" * 500]
    svg = stacked_bars(labels, [("a", BLUE, [1, 2, 3, 4])], "messages")
    assert svg.startswith("<svg")
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert r"$\frac{broken$" in svg
    assert "\x00" not in svg
    assert "x" * 43 not in svg


def test_a_plot_is_the_same_every_time_and_takes_gaps() -> None:
    at = datetime.fromisoformat("2026-11-18 12:00:00")
    flow = [{"queue": "Jobs", "at": at, "arrived": 3, "done": 2, "dead": 1, "other": 0}]
    figures = ReportFigures("t", 300, 60, at, at, flow=flow)
    assert flow_chart(figures) == flow_chart(figures)
    unknown = dict.fromkeys(("start_p50", "start_p99", "done_p50", "done_p99"))
    rows = [{"queue": "a", **unknown, "done_p50": 0.0, "done_p99": 90.0}, {"queue": "b", **unknown}]
    svg = latency_chart(rows, lambda row: row["queue"])
    assert ">a<" in svg
    assert ">b<" not in svg


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "–"), (0.012, "12 ms"), (1.5, "1.5 s"), (90, "1.5 min"), (7_200, "2 h"), (4 * 86_400, "4 d")],
)
def test_a_time_as_people_say_it(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_a_label_is_one_printable_line() -> None:
    assert plain("a\nb\tc") == "a b c"
    assert plain(None) == "–"
    assert len(plain("y" * 99)) == 42
