"""A queue's past in numbers: samples that the sweep keeps, and the series that is drawn from them.

Totals only grow, so what happened between two samples is their difference: a sample that is missing costs detail,
never a count. While a queue holds anything or moves there is a sample every five minutes; where there is none it stood
empty, unless the sweep did not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from millrace.model.clock import MINUTE
from millrace.model.queue_state import QueueState
from millrace.model.values import dataclass

#: One sample for each stretch of this length.
SAMPLE_MS = 5 * MINUTE
HOUR = 60 * MINUTE
#: Samples are forgotten after 15 days: the longest series, and the day before it.
SAMPLE_TTL_SECONDS = 15 * 24 * 3_600
#: Within so long after a sample the next one is due, if the queue held anything.
GAP_MS = 3 * SAMPLE_MS


@dataclass(frozen=True, slots=True)
class QueueSample:
    """What a queue's numbers were at one moment."""

    at: int
    depth: int
    oldest_age_ms: int
    arrived: int  #: this and the following: since the queue exists
    done: int
    failed: int
    dead: int


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One step of a series."""

    at: int  #: where the step begins
    depth: int | None  #: the most in the step; None where nothing is known
    oldest_age_ms: int | None
    arrived: int = 0
    done: int = 0
    failed: int = 0
    dead: int = 0


def sample_of(state: QueueState, now: int, *, depth: int | None = None, oldest_age_ms: int = 0) -> QueueSample:
    """A sample of a queue's counters as they stand, with what was counted beside them."""
    depth = max(0, state.depth) if depth is None else depth
    return QueueSample(now, depth, oldest_age_ms, state.arrived, state.done, state.failed, state.dead)


def first_sample(state: QueueState, now: int) -> QueueSample | None:
    """Where everything that ever came, came within the last minutes: the queue as it was before, empty."""
    minutes = (*state.grants, *state.arrivals)
    began = min(minutes, default=0) * MINUTE
    is_new = now - began < 2 * SAMPLE_MS and state.arrived == sum(state.arrivals.values())
    return QueueSample(began - SAMPLE_MS, 0, 0, 0, 0, 0, 0) if is_new else None


def series(samples: Sequence[QueueSample], start: int, end: int, step: int) -> list[SeriesPoint]:
    """The samples as even steps from `start` to `end`. Those from before `start` only say how it began."""
    deltas: dict[int, list[int]] = {}
    for before, after in pairwise(samples):
        if start <= after.at < end:
            grown = deltas.setdefault((after.at - start) // step, [0, 0, 0, 0])
            for place, name in enumerate(("arrived", "done", "failed", "dead")):
                grown[place] += max(0, getattr(after, name) - getattr(before, name))
    steps: dict[int, list[QueueSample]] = {}
    for sample in samples:
        steps.setdefault((sample.at - start) // step, []).append(sample)
    points = []
    last: QueueSample | None = next((sample for sample in reversed(samples) if sample.at < start), None)
    for number in range(-(-(end - start) // step)):
        at = start + number * step
        within = steps.get(number, [])
        depth, age = _standing(within, last, at)
        points.append(SeriesPoint(at, depth, age, *deltas.get(number, ())))
        last = within[-1] if within else last
    return points


def _standing(within: Sequence[QueueSample], last: QueueSample | None, at: int) -> tuple[int | None, int | None]:
    """The depth and age of a step: of its samples, or of the last one before while that still says something."""
    if within:
        return max(sample.depth for sample in within), max(sample.oldest_age_ms for sample in within)
    if last is None:
        return None, None
    if last.depth == 0 or at - last.at <= GAP_MS:
        return last.depth, last.oldest_age_ms
    return None, None
