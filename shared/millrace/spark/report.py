"""What came of a run, exactly: every outcome as Parquet, the rejected rows to mend, a summary for people and programs.

    REPORT/RUN/outcomes/       Parquet: one row for each row of the input
    REPORT/RUN/rejects/        JSON lines: file, offset, the row as it was read, the reason
    REPORT/RUN/summary.json    the counts, the most frequent reasons, the spending

Only what the tasks returned counts. Spark hands over the output of one try of each task, so a repeated or a doubled
task cannot blur it; accumulators can, and serve for the progress line alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millrace.spark.files import write_text
from millrace.spark.rows import REPORTED, RowOutcome

#: Reasons shown in the summary, the most frequent first.
REASONS = 20


@dataclass(frozen=True, slots=True)
class Report:
    """A run in figures."""

    action: str
    run: str
    queue: str
    counts: Mapping[str, int]
    reasons: Sequence[tuple[str, str, int]] = ()  #: outcome, reason, rows
    spent: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    rejects: str = ""  #: where the rejected rows are; empty where there are none, or nothing was kept

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def as_json(self) -> str:
        found = {
            "action": self.action,
            "run": self.run,
            "queue": self.queue,
            "rows": self.rows,
            "counts": dict(self.counts),
            "reasons": [{"outcome": outcome, "reason": reason, "rows": rows} for outcome, reason, rows in self.reasons],
            "spent": {name: round(number, 1) for name, number in self.spent.items()},
            **({"rejects": self.rejects} if self.rejects else {}),
            **self.details,
        }
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def as_table(self) -> str:
        queue = f"queue {self.queue}" if self.queue else "every queue"
        lines = [f"{self.action} · {queue} · run {self.run}", ""]
        lines += table([(name, f"{count:,}") for name, count in self.counts.items()] + [("rows", f"{self.rows:,}")])
        if self.reasons:
            lines += ["", *table([(f"{rows:,}", outcome, reason) for outcome, reason, rows in self.reasons])]
        if samples := self.details.get("samples"):
            names = list(dict.fromkeys(name for sample in samples for name in sample))
            lines += ["", *table([names, *([sample.get(name, "") for name in names] for sample in samples)])]
        if self.spent:
            lines += ["", self._spending()]
        if self.rejects:
            lines += ["", f"The rejected rows are in {self.rejects}."]
        return "\n".join(lines) + "\n"

    def _spending(self) -> str:
        """Write units, and how fast: asked and reached."""
        spent = self.spent
        asked = f" of {spent['units_per_s_asked']:,.0f} asked" if "units_per_s_asked" in spent else ""
        parts = [f"{spent.get('units', 0):,.0f} write units, {spent.get('units_per_s', 0):,.0f} a second{asked}"]
        if spent.get("throttled"):
            parts.append(f"throttled {spent['throttled']:,.0f} writes in {spent.get('throttled_s', 0):,.0f} s of tasks")
        return "; ".join(parts)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cell(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(text: str, width: int) -> str:
    return text.rjust(width) if text[:1].isdigit() else text.ljust(width)


def keep_outcomes(outcomes: DataFrame, place: str) -> DataFrame:
    """Run the run: the one action that writes. What comes back is read from the files, so asking it writes nothing."""
    outcomes.write.mode("overwrite").parquet(f"{place}/outcomes")
    return outcomes.sparkSession.read.schema(REPORTED.ddl).parquet(f"{place}/outcomes")


def tally_outcomes(outcomes: DataFrame, names: Iterable[str]) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Run the run and keep nothing but its figures. What is lost of them on the way is written again: a repeat of a
    run's rows counts the same.
    """
    grouped = outcomes.groupBy("outcome", "reason").agg(F.count("*").alias("rows")).persist()
    try:
        found = {
            row["outcome"]: row["rows"] for row in grouped.groupBy("outcome").agg(F.sum("rows").alias("rows")).collect()
        }
        explained = grouped.where("reason is not null").orderBy(F.desc("rows"), "outcome", "reason").limit(REASONS)
        reasons = [(row["outcome"], row["reason"], row["rows"]) for row in explained.collect()]
    finally:
        grouped.unpersist()
    return {name: found.get(name, 0) for name in names}, reasons


def count_outcomes(kept: DataFrame, names: Iterable[str]) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Rows by outcome, and the most frequent reasons of those that have one."""
    by_outcome = kept.groupBy("outcome").agg(F.count("*").alias("rows"), F.count("reason").alias("explained")).collect()
    found = {row["outcome"]: row["rows"] for row in by_outcome}
    counts = {name: found.get(name, 0) for name in names}
    if not any(row["explained"] for row in by_outcome):
        return counts, []
    reasons = (
        kept.where("reason is not null")
        .groupBy("outcome", "reason")
        .count()
        .orderBy(F.desc("count"), "outcome", "reason")
        .limit(REASONS)
        .collect()
    )
    return counts, [(r["outcome"], r["reason"], r["count"]) for r in reasons]


def keep_rejects(kept: DataFrame, place: str, starts: DataFrame | None) -> str:
    """The rejected rows with their place in the file, which `starts` tells where their offset does not.

    Returns where they are.
    """
    rejected = kept.where(F.col("outcome") == RowOutcome.REJECTED.value)
    if starts is not None:
        found = rejected.join(starts, ["path", "block", "offset"], "left")
        rejected = found.withColumn("offset", F.col("start"))
    text = F.decode("raw", "UTF-8")
    readable = F.encode(text, "UTF-8") == F.col("raw")
    rejected.select(
        F.col("path").alias("file"),
        "offset",
        "reason",
        F.when(readable, text).alias("raw"),
        F.when(~readable, F.base64("raw")).alias("raw_base64"),
    ).coalesce(1).write.mode("overwrite").json(f"{place}/rejects")
    return f"{place}/rejects"


def keep_summary(spark: SparkSession, summary: Report, place: str) -> None:
    write_text(spark, f"{place}/summary.json", summary.as_json())
