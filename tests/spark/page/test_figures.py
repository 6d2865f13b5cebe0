"""Steps of time that fit a plot."""

from __future__ import annotations

import pytest

from millrace.spark.page.figures import step_for

HOUR, DAY = 3_600, 86_400


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(0, 60), (HOUR, 60), (8 * HOUR, 300), (DAY, 900), (3 * DAY, HOUR), (14 * DAY, 4 * HOUR), (90 * DAY, DAY),
     (3_000 * DAY, 7 * DAY)],
)  # fmt: skip
def test_about_a_hundred_steps_show_the_whole(seconds: float, step: int) -> None:
    assert step_for(seconds) == step
