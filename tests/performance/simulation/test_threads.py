"""Threads in virtual time behave as `threading`'s own."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.worker import pipeline
from tests.performance.simulation.threads import classes_for, virtual_threads
from tests.performance.simulation.virtual_time import NOON, VirtualTime


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def threading(time: VirtualTime) -> Any:
    return type("threading", (), classes_for(time))


def test_a_lock_held_over_a_wait_blocks_the_others(time: VirtualTime, threading: Any) -> None:
    lock, seen = threading.Lock(), []

    def work(name: str) -> None:
        with lock:
            time.sleep_ms(10)
            seen.append((name, time.now - NOON))

    for name in "abc":
        threading.Thread(target=work, args=(name,)).start()
    time.run()
    assert seen == [("a", 10), ("b", 20), ("c", 30)]


def test_a_condition_wakes_one_or_times_out(time: VirtualTime, threading: Any) -> None:
    condition, seen = threading.Condition(), []

    def waits(name: str, timeout: float | None) -> None:
        with condition:
            seen.append((name, condition.wait(timeout), time.now - NOON))

    def notifies() -> None:
        time.sleep_ms(5)
        with condition:
            condition.notify()

    threading.Thread(target=waits, args=("first", None)).start()
    threading.Thread(target=waits, args=("second", 0.02)).start()
    threading.Thread(target=notifies).start()
    time.run()
    assert seen == [("first", True, 5), ("second", False, 20)]


def test_join_waits_for_the_end_of_a_thread(time: VirtualTime, threading: Any) -> None:
    seen = []

    def parent() -> None:
        child = threading.Thread(target=lambda: time.sleep_ms(30))
        child.start()
        child.join(0.01)
        seen.append((child.is_alive(), time.now - NOON))
        child.join()
        seen.append((child.is_alive(), time.now - NOON))

    time.spawn("parent", parent)
    time.run()
    assert seen == [(True, 10), (False, 30)]


def test_an_event_is_seen_by_all_that_wait(time: VirtualTime, threading: Any) -> None:
    event, seen = threading.Event(), []
    for name in "ab":
        threading.Thread(target=lambda name=name: seen.append((name, event.wait(1), time.now - NOON))).start()

    def sets() -> None:
        time.sleep_ms(7)
        event.set()

    threading.Thread(target=sets).start()
    time.run()
    assert seen == [("a", True, 7), ("b", True, 7)]


def test_the_library_uses_them_only_inside(time: VirtualTime) -> None:
    real = vars(pipeline)["Condition"]
    with virtual_threads(time):
        assert vars(pipeline)["Condition"] is not real
    assert vars(pipeline)["Condition"] is real
