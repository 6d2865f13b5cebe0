"""Lines while a run writes: now and then, by its finished tasks, and no more once it is over."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.spark import progress
from millrace.spark.progress import watched


class Tracker:
    """Spark's own count of tasks: one stage runs, one ended meanwhile."""

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 (Spark's name)
        return [1, 2]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802 (Spark's name)
        return SimpleNamespace(numCompletedTasks=3, numTasks=8) if stage == 1 else None


SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))


def test_a_line_has_tasks_outcomes_and_their_rate() -> None:
    line = progress._line(SPARK, {"inserted": 1500, "rejected": 500, "units": 9.0}, 10.0)
    assert line.split("  ")[-4:] == ["tasks 3/8", "inserted 1,500", "rejected 500", "200 rows/s"]
    assert "no task finished yet" in progress._line(SPARK, {}, 1.0)


def test_lines_are_said_until_the_block_ends_however_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    counts: Any = SimpleNamespace(value={"inserted": 1})
    twice, said = threading.Semaphore(0), []

    def say(line: str) -> None:
        said.append(line)
        twice.release()

    def run() -> None:
        with watched(SPARK, counts, say):
            assert all(twice.acquire(timeout=60) for _ in range(2))
            raise RuntimeError("the run failed")

    with pytest.raises(RuntimeError, match="the run failed"):
        run()
    assert all("inserted 1" in line for line in said)
    assert not any(thread.name == "progress" for thread in threading.enumerate())
