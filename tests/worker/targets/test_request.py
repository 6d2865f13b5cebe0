"""A throttled target is believed within bounds."""

from __future__ import annotations

import pytest

from millrace.worker.targets.request import DEFAULT_AFTER_S, MAX_AFTER_S, Throttled
from tests.conftest import NOON


@pytest.mark.parametrize(
    ("asked", "waited"), [(None, DEFAULT_AFTER_S), (17.0, 17.0), (-1.0, 0.0), (10 * MAX_AFTER_S, MAX_AFTER_S)]
)
def test_a_target_that_asks_for_later_gets_it_within_bounds(asked: float | None, waited: float) -> None:
    assert Throttled(asked, "no room").until_ms(NOON) == NOON + waited * 1000
