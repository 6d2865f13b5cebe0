"""A series from samples: differences of totals, peaks of levels, and gaps where nothing is known."""

from __future__ import annotations

from millrace.model.clock import MINUTE
from millrace.model.queue_samples import GAP_MS, SAMPLE_MS, QueueSample, first_sample, sample_of, series
from millrace.model.queue_state import QueueState

START = 1_000_000 * MINUTE


def sample(minutes: int, depth: int = 0, arrived: int = 0, **more: int) -> QueueSample:
    numbers = {"oldest_age_ms": 0, "done": 0, "failed": 0, "dead": 0, **more}
    return QueueSample(START + minutes * MINUTE, depth, arrived=arrived, **numbers)


def test_what_happened_is_the_difference_of_totals_in_the_step_of_the_later_sample() -> None:
    samples = [sample(-5, 0, 100), sample(1, 4, 110, done=6), sample(6, 9, 120, done=6, failed=2), sample(9, 3, 130)]
    first, second = series(samples, START, START + 10 * MINUTE, 5 * MINUTE)
    assert (first.at, first.depth, first.arrived, first.done, first.failed) == (START, 4, 10, 6, 0)
    assert (second.depth, second.arrived, second.done, second.failed) == (9, 20, 0, 2)


def test_a_queue_that_was_empty_stays_at_zero_until_it_moves() -> None:
    points = series([sample(-600, 0, 5), sample(21, 1, 6)], START, START + 25 * MINUTE, 5 * MINUTE)
    assert [point.depth for point in points] == [0, 0, 0, 0, 1]
    assert [point.arrived for point in points] == [0, 0, 0, 0, 1]


def test_where_the_sweep_did_not_run_nothing_is_known() -> None:
    points = series([sample(0, 7)], START, START + 4 * GAP_MS, GAP_MS)
    assert [point.depth for point in points] == [7, 7, None, None]
    assert series([], START, START + SAMPLE_MS, SAMPLE_MS)[0].depth is None


def test_a_new_queue_begins_empty() -> None:
    minute = START // MINUTE
    new = QueueState("t", "q", depth=3, arrived=5, done=2, grants={minute: 8}, arrivals={minute + 1: 2, minute + 2: 3})
    empty = QueueSample(START - SAMPLE_MS, 0, 0, 0, 0, 0, 0)
    assert first_sample(new, START + 2 * MINUTE) == first_sample(new, START + 7 * MINUTE) == empty
    assert first_sample(new, START + 60 * MINUTE) is None, "it was said"
    assert first_sample(QueueState("t", "q", arrived=6, arrivals={minute: 3}), START) is None, "it is older"
    assert first_sample(QueueState("t", "q"), START) is None, "nothing ever came"
    assert sample_of(new, START) == QueueSample(START, 3, 0, 5, 2, 0, 0)
