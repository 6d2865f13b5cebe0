"""The driver's view of a run that writes: how far it is, and in the end what it has cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from millrace.model.clock import system_entropy
from millrace.model.ids import random_token
from millrace.spark.bulk_write import RunCountsParam
from millrace.spark.progress import Moment, watched
from millrace.spark.progress_channel import Channel, ProgressServer, RunCounts


class RunWatch:
    """Counts of running tasks, heard from themselves, and of finished ones, from Spark."""

    def __init__(self, spark: SparkSession, source_bytes: int | None = None) -> None:
        self._spark = spark
        self._bytes = float(source_bytes or 0)
        self.finished: Accumulator[RunCounts] = spark.sparkContext.accumulator({}, RunCountsParam())
        self._server = _server(spark)
        self._seconds = 0.0

    @property
    def channel(self) -> Channel | None:
        return self._server.channel if self._server else None

    @contextmanager
    def watching(self, say: Callable[[str], None] | None) -> Iterator[None]:
        """Show how far the run is while the block writes, and how long it took."""
        began = time.monotonic()
        try:
            with watched(self.look, say):
                yield
        finally:
            self._seconds = time.monotonic() - began
            if self._server:
                self._server.close()

    def look(self, seconds: float) -> Moment:
        """How far the run is."""
        heard, finished = self._server.totals() if self._server else {}, self.finished.value
        # A channel that some task could not reach has heard less than Spark.
        counts = {name: max(heard.get(name, 0.0), finished.get(name, 0.0)) for name in {*heard, *finished}}
        tracker = self._spark.sparkContext.statusTracker()
        stages = [stage for id_ in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(id_))]
        done, tasks = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
        return Moment(seconds, counts, done, tasks, self._bytes)

    def spent(self, asked: float | None) -> dict[str, float]:
        """Of all tasks: what DynamoDB charged, or what its rules say where it does not tell."""
        counts = self.finished.value
        units = counts.get("units", 0.0)
        spent = {name: counts.get(name, 0.0) for name in ("units", "throttled", "throttled_s", "waited_s")}
        reached = {"units_per_s": units / self._seconds if self._seconds else 0.0}
        return spent | reached | ({} if asked is None else {"units_per_s_asked": asked})


def _server(spark: SparkSession) -> ProgressServer | None:
    """A listener where executors find the driver; None where it cannot be opened: the run goes on without."""
    host = spark.conf.get("spark.driver.host", None) or "127.0.0.1"
    bind = spark.conf.get("spark.driver.bindAddress", None) or host
    try:
        return ProgressServer(host, bind, random_token(system_entropy))
    except OSError:
        return None
