"""A line now and then while a long run writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from millrace.spark.bulk_write import RunCounts
from millrace.spark.rows import RowOutcome

EVERY_S = 5.0


@contextmanager
def watched(spark: SparkSession, run_counts: Accumulator[RunCounts], say: Callable[[str], None]) -> Iterator[None]:
    """Say every few seconds how far the run is: by its finished tasks, so it is a hint, not the report."""
    over = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not over.wait(EVERY_S):
            say(_line(spark, run_counts.value, time.monotonic() - began))

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _line(spark: SparkSession, run_counts: RunCounts, seconds: float) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    done = sum(stage.numCompletedTasks for stage in stages if stage)
    tasks = sum(stage.numTasks for stage in stages if stage)
    counts = "  ".join(f"{outcome} {int(run_counts[outcome]):,}" for outcome in RowOutcome if run_counts.get(outcome))
    rows = sum(run_counts.get(outcome, 0) for outcome in RowOutcome)
    return f"{seconds:6.0f} s  tasks {done}/{tasks}  {counts or 'no task finished yet'}  {rows / seconds:,.0f} rows/s"
