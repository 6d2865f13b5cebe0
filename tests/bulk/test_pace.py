"""A task's pace: a share of the run's write units, less after throttling, more again with time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from millrace.spark.adaptive_throttle import (
    BURST_S,
    LEAST_UNITS_PER_S,
    LOWER_EVERY_S,
    MOST_UNITS_PER_S,
    AdaptiveThrottle,
)
from tests.conformance.faults import Time


@pytest.fixture
def time() -> Time:
    return Time()


def paced(time: Time, units_per_s: float | None) -> AdaptiveThrottle:
    return AdaptiveThrottle(units_per_s, monotonic=time.monotonic, sleep=time.sleep)


def rate(pace: AdaptiveThrottle) -> float:
    """The rate as the next batch finds it."""
    pace.take(0)
    assert pace.rate is not None
    return pace.rate


def test_a_task_writes_its_share_and_not_more(time: Time) -> None:
    pace = paced(time, 100)
    began = time.now
    for _ in range(41):
        pace.take(25)
    assert time.now - began == pytest.approx(10), "the first batch goes at once, forty more at a quarter second each"
    assert pace.spending.units == 41 * 25
    assert pace.spending.waited_s == pytest.approx(10)


def test_without_a_share_nothing_waits_until_the_table_throttles(time: Time) -> None:
    pace = paced(time, None)
    for _ in range(1_000):
        pace.take(25)
    assert (time.waits, pace.rate, pace.spending.units) == ([], None, 25_000)


def test_the_first_throttle_sets_a_rate_from_what_was_written(time: Time) -> None:
    pace = paced(time, None)
    for _ in range(200):
        pace.take(100)
        time.now += 1
    pace.throttled(3)
    assert pace.rate == pytest.approx(100 * 0.7), "however long the task had run"
    assert pace.spending.throttled == 3
    pace.take(70)
    pace.take(70)
    assert sum(time.waits) == pytest.approx(1)


def test_a_throttle_in_the_first_moment_counts_as_half_a_second_of_writing(time: Time) -> None:
    pace = paced(time, None)
    pace.take(50)
    pace.throttled(25)
    assert pace.rate == pytest.approx(50 / LOWER_EVERY_S * 0.7)


def test_throttles_lower_the_rate_at_most_twice_a_second(time: Time) -> None:
    pace = paced(time, 1_000)
    for _ in range(10):
        pace.throttled(25)
    assert pace.rate == pytest.approx(700), "one crowded moment is one sign"
    time.now += LOWER_EVERY_S - 0.01
    pace.throttled(25)
    assert pace.rate == pytest.approx(700)
    time.now += 0.01
    pace.throttled(25)
    assert pace.rate == pytest.approx(700 * 1.05**LOWER_EVERY_S * 0.7)
    assert pace.spending.throttled == 12 * 25, "each is counted"


def test_a_quiet_second_raises_the_rate_by_a_twentieth_up_to_the_share(time: Time) -> None:
    pace = paced(time, 100)
    pace.throttled(1)
    for second in range(1, 8):
        time.now += 1
        assert rate(pace) == pytest.approx(70 * 1.05**second)
    time.now += 1
    assert rate(pace) == 100
    time.now += 3_600
    assert rate(pace) == 100


def test_raising_does_not_depend_on_how_often_it_is_looked_at(time: Time) -> None:
    often, once = paced(time, 100), paced(time, 100)
    often.throttled(1)
    once.throttled(1)
    for _ in range(300):
        time.now += 0.01
        rate(often)
    assert rate(often) == pytest.approx(rate(once))


def test_a_task_is_never_slowed_to_a_halt(time: Time) -> None:
    pace = paced(time, 100)
    for _ in range(50):
        pace.throttled(1)
        time.now += LOWER_EVERY_S
    assert rate(pace) >= LEAST_UNITS_PER_S
    assert rate(pace) < 2 * LEAST_UNITS_PER_S


def test_a_share_below_the_least_is_kept_even_when_throttled(time: Time) -> None:
    pace = paced(time, 2)
    pace.throttled(1)
    assert pace.rate == 2


def test_unused_room_is_caught_up_with_for_a_quarter_second_only(time: Time) -> None:
    pace = paced(time, 100)
    pace.take(100)
    time.now += 1_000
    pace.take(100 * BURST_S)
    pace.take(25)
    assert sum(time.waits) == 0
    pace.take(25)
    assert sum(time.waits) == pytest.approx(0.25)


def test_what_a_request_really_cost_is_made_up_for(time: Time) -> None:
    pace = paced(time, 100)
    pace.take(25)
    pace.correct(75)
    pace.take(25)
    assert sum(time.waits) == pytest.approx(1)
    pace.correct(-25)
    assert pace.spending.units == 100
    pace.take(1)
    assert sum(time.waits) == pytest.approx(1), "what was not charged need not be waited for"


def test_without_a_share_the_rate_comes_down_at_once_after_a_long_quiet_time(time: Time) -> None:
    pace = paced(time, None)
    pace.take(50)
    pace.throttled(1)
    for _ in range(20):
        time.now += 3_600
        pace.take(1)
    assert pace.rate == MOST_UNITS_PER_S
    time.now += 1_000_000
    assert rate(pace) == MOST_UNITS_PER_S, "no rest is so long that its growth cannot be worked out"
    pace.throttled(1)
    assert pace.rate == pytest.approx(MOST_UNITS_PER_S * 0.7)


def test_threads_share_one_pace() -> None:
    """Real threads on a clock that stands still: the waits that they are given lie one behind the other."""
    lock, waits = threading.Lock(), []

    def sleep(seconds: float) -> None:
        with lock:
            waits.append(seconds)

    pace = AdaptiveThrottle(100, monotonic=lambda: 0.0, sleep=sleep)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pace.take, [10] * 80))
    assert sorted(waits) == pytest.approx([0.1 * number for number in range(1, 80)])
    assert pace.spending.units == 800
