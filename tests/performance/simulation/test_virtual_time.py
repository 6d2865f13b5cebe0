"""Virtual time itself: order, waiting, killing, and the same run from the same seed."""

from __future__ import annotations

import pytest

from tests.performance.simulation.virtual_time import NOON, Stuck, VirtualTime


def test_tasks_run_in_the_order_of_their_times() -> None:
    time, seen = VirtualTime(), []

    def waits(name: str, millis: float) -> None:
        time.sleep_ms(millis)
        seen.append((name, time.now - NOON))

    time.spawn("late", lambda: waits("late", 20))
    time.spawn("soon", lambda: waits("soon", 5))
    time.spawn("same", lambda: waits("same", 20))
    time.run()
    assert seen == [("soon", 5), ("late", 20), ("same", 20)]


def test_a_killed_task_does_nothing_more() -> None:
    time, seen = VirtualTime(), []

    def work() -> None:
        try:
            time.sleep_ms(10)
            seen.append("ran")
        finally:
            seen.append("cleaned up")

    task = time.spawn("worker", work)
    time.run(5)
    time.kill(task)
    time.run()
    assert (seen, task.over) == ([], True)


def test_an_error_in_a_task_ends_the_run() -> None:
    time = VirtualTime()
    time.spawn("broken", lambda: [].pop())
    with pytest.raises(IndexError):
        time.run()


def test_waiting_for_what_never_comes_is_an_error() -> None:
    time = VirtualTime()
    time.spawn("idle", lambda: time.sleep(3600))
    with pytest.raises(Stuck, match=r"10\.0 s"):
        time.run_until(lambda: False, 10_000)


def test_only_a_task_can_wait() -> None:
    with pytest.raises(RuntimeError, match="only a task"):
        VirtualTime().sleep_ms(1)
