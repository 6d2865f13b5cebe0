"""`--action report`: from messages to a page, and a summary beside it."""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import DataFrame, SparkSession

from millrace.model.errors import InvalidField
from millrace.spark.files import write_text
from millrace.spark.page.figures import collect_figures
from millrace.spark.page.page import render_page
from millrace.spark.report import Report, keep_summary

PAGE = "report.html"
_COUNTED = ("done", "dead", "purged", "filtered", "open", "unknown")


def make_page(
    spark: SparkSession, messages: DataFrame, place: str, run: str, queue: str = "", *, sla_s: float = 300.0
) -> Report:
    """Write the page of these messages below `place`. Raises InvalidField where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise InvalidField(
            "report", "needs matplotlib", "pip install 'millrace[report]', or an additional module of Glue"
        )
    figures = collect_figures(messages, f"Queue {queue}" if queue else "Every queue", sla_s=sla_s)
    write_text(spark, f"{place}/{PAGE}", render_page(figures))
    counts = {name: int(figures.totals.get(name, 0)) for name in _COUNTED}
    summary = Report("report", run, queue, counts, details={"page": f"{place}/{PAGE}"})
    keep_summary(spark, summary, place)
    return summary
