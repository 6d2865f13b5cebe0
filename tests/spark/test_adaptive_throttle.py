"""A task's throttle: a share of the run's write units, less after throttling, more again with time."""

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
from tests.faults.client import Time


@pytest.fixture
def time() -> Time:
    return Time()


def paced(time: Time, units_per_s: float | None) -> AdaptiveThrottle:
    return AdaptiveThrottle(units_per_s, monotonic=time.monotonic, sleep=time.sleep)


def rate(throttle: AdaptiveThrottle) -> float:
    """The rate as the next batch finds it."""
    throttle.take(0)
    assert throttle.rate is not None
    return throttle.rate


def test_a_task_writes_its_share_and_not_more(time: Time) -> None:
    throttle = paced(time, 100)
    began = time.now
    for _ in range(41):
        throttle.take(25)
    assert time.now - began == pytest.approx(10), "the first batch goes at once, forty more at a quarter second each"
    assert throttle.spending.units == 41 * 25
    assert throttle.spending.waited_s == pytest.approx(10)


def test_without_a_share_nothing_waits_until_the_table_throttles(time: Time) -> None:
    throttle = paced(time, None)
    for _ in range(1_000):
        throttle.take(25)
    assert (time.waits, throttle.rate, throttle.spending.units) == ([], None, 25_000)


def test_the_first_throttle_sets_a_rate_from_what_was_written(time: Time) -> None:
    throttle = paced(time, None)
    for _ in range(200):
        throttle.take(100)
        time.now += 1
    throttle.throttled(3)
    assert throttle.rate == pytest.approx(100 * 0.7), "however long the task had run"
    assert throttle.spending.throttled == 3
    throttle.take(70)
    throttle.take(70)
    assert sum(time.waits) == pytest.approx(1)


def test_a_throttle_in_the_first_moment_counts_as_half_a_second_of_writing(time: Time) -> None:
    throttle = paced(time, None)
    throttle.take(50)
    throttle.throttled(25)
    assert throttle.rate == pytest.approx(50 / LOWER_EVERY_S * 0.7)


def test_throttles_lower_the_rate_at_most_twice_a_second(time: Time) -> None:
    throttle = paced(time, 1_000)
    for _ in range(10):
        throttle.throttled(25)
    assert throttle.rate == pytest.approx(700), "one crowded moment is one sign"
    time.now += LOWER_EVERY_S - 0.01
    throttle.throttled(25)
    assert throttle.rate == pytest.approx(700)
    time.now += 0.01
    throttle.throttled(25)
    assert throttle.rate == pytest.approx(700 * 1.05**LOWER_EVERY_S * 0.7)
    assert throttle.spending.throttled == 12 * 25, "each is counted"


def test_a_quiet_second_raises_the_rate_by_a_twentieth_up_to_the_share(time: Time) -> None:
    throttle = paced(time, 100)
    throttle.throttled(1)
    for second in range(1, 8):
        time.now += 1
        assert rate(throttle) == pytest.approx(70 * 1.05**second)
    time.now += 1
    assert rate(throttle) == 100
    time.now += 3_600
    assert rate(throttle) == 100


def test_raising_does_not_depend_on_how_often_it_is_looked_at(time: Time) -> None:
    often, once = paced(time, 100), paced(time, 100)
    often.throttled(1)
    once.throttled(1)
    for _ in range(300):
        time.now += 0.01
        rate(often)
    assert rate(often) == pytest.approx(rate(once))


def test_a_task_is_never_slowed_to_a_halt(time: Time) -> None:
    throttle = paced(time, 100)
    for _ in range(50):
        throttle.throttled(1)
        time.now += LOWER_EVERY_S
    assert rate(throttle) >= LEAST_UNITS_PER_S
    assert rate(throttle) < 2 * LEAST_UNITS_PER_S


def test_a_share_below_the_least_is_kept_even_when_throttled(time: Time) -> None:
    throttle = paced(time, 2)
    throttle.throttled(1)
    assert throttle.rate == 2


def test_unused_room_is_caught_up_with_for_a_quarter_second_only(time: Time) -> None:
    throttle = paced(time, 100)
    throttle.take(100)
    time.now += 1_000
    throttle.take(100 * BURST_S)
    throttle.take(25)
    assert sum(time.waits) == 0
    throttle.take(25)
    assert sum(time.waits) == pytest.approx(0.25)


def test_what_a_request_really_cost_is_made_up_for(time: Time) -> None:
    throttle = paced(time, 100)
    throttle.take(25)
    throttle.correct(75)
    throttle.take(25)
    assert sum(time.waits) == pytest.approx(1)
    throttle.correct(-25)
    assert throttle.spending.units == 100
    throttle.take(1)
    assert sum(time.waits) == pytest.approx(1), "what was not charged need not be waited for"


def test_without_a_share_the_rate_comes_down_at_once_after_a_long_quiet_time(time: Time) -> None:
    throttle = paced(time, None)
    throttle.take(50)
    throttle.throttled(1)
    for _ in range(20):
        time.now += 3_600
        throttle.take(1)
    assert throttle.rate == MOST_UNITS_PER_S
    time.now += 1_000_000
    assert rate(throttle) == MOST_UNITS_PER_S, "no rest is so long that its growth cannot be worked out"
    throttle.throttled(1)
    assert throttle.rate == pytest.approx(MOST_UNITS_PER_S * 0.7)


def test_threads_share_one_pace() -> None:
    """Real threads on a clock that stands still: the waits that they are given lie one behind the other."""
    lock, waits = threading.Lock(), []

    def sleep(seconds: float) -> None:
        with lock:
            waits.append(seconds)

    throttle = AdaptiveThrottle(100, monotonic=lambda: 0.0, sleep=sleep)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(throttle.take, [10] * 80))
    assert sorted(waits) == pytest.approx([0.1 * number for number in range(1, 80)])
    assert throttle.spending.units == 800


def test_seconds_in_which_the_table_throttled_are_counted_once_each() -> None:
    now = [10.2]
    throttle = AdaptiveThrottle(None, monotonic=lambda: now[0], sleep=lambda _: None)
    for now[0] in (10.2, 10.9, 11.0, 14.5, 14.6):
        throttle.throttled(2)
    assert (throttle.spending.throttled, throttle.spending.throttled_s) == (10, 3)
