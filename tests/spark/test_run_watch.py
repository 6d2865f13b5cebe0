"""The driver's view of a run: what tasks say of themselves, and what Spark says of those that ended."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.spark.bulk_write import RunCountsParam
from millrace.spark.progress_channel import ProgressSender
from millrace.spark.run_watch import RunWatch
from tests.spark.test_progress_channel import heard


class Context:
    """As much of Spark as counts tasks: one stage runs, one ended meanwhile."""

    def statusTracker(self) -> Context:  # noqa: N802 (Spark's names)
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return [1, 2]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        return SimpleNamespace(numCompletedTasks=3, numTasks=8) if stage == 1 else None

    def accumulator(self, value: dict[str, float], param: RunCountsParam) -> Any:
        found = SimpleNamespace(value=value)
        found.add = lambda counts: param.addInPlace(found.value, counts)
        return found


def session(host: str = "127.0.0.1") -> Any:
    conf = SimpleNamespace(get=lambda name, default: host if name == "spark.driver.host" else default)
    return SimpleNamespace(sparkContext=Context(), conf=conf)


def test_running_tasks_are_seen_and_the_end_is_what_spark_counted() -> None:
    watch = RunWatch(session(), 1_000)
    with watch.watching(lambda _line: None):
        ProgressSender(watch.channel, "1").send({"inserted": 30.0, "units": 60.0, "bytes": 250.0}, last=True)
        assert watch._server is not None
        assert heard(watch._server, {"inserted": 30.0, "units": 60.0, "bytes": 250.0})
        moment = watch.look(10.0)
        assert (moment.rows, moment.share, moment.tasks_done, moment.tasks) == (30, 0.25, 3, 8)
        watch.finished.add({"inserted": 50.0, "units": 100.0, "throttled": 2.0, "throttled_s": 1.0})
        assert watch.look(20.0).rows == 50, "a task that could not reach the driver counts when it has ended"
    spent = watch.spent(500.0)
    assert (spent["units"], spent["throttled"], spent["throttled_s"], spent["units_per_s_asked"]) == (100, 2, 1, 500)
    assert spent["units_per_s"] > 0
    assert "units_per_s_asked" not in watch.spent(None)


def test_a_driver_that_cannot_listen_runs_without_a_channel() -> None:
    watch = RunWatch(session("203.0.113.7"))  # nobody's address here
    assert watch.channel is None
    with watch.watching(lambda _line: None):
        assert watch.look(1.0).rows == 0


@pytest.mark.parametrize("failing", [False, True])
def test_nothing_listens_any_more_once_the_run_is_over(failing: bool) -> None:
    watch = RunWatch(session())

    def run() -> None:
        with watch.watching(lambda _line: None):
            if failing:
                raise RuntimeError("the run failed")

    if failing:
        with pytest.raises(RuntimeError):
            run()
    else:
        run()
    assert watch.channel is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((watch.channel.host, watch.channel.port), 1)
