"""Controls: what a handler may say with Retry and Snooze."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from millrace.worker import Retry, Snooze
from tests.conftest import NOON


def test_a_wait_is_seconds_or_a_duration_and_never_negative() -> None:
    assert Retry().after_ms is None
    assert Retry(after=1.5).after_ms == 1_500
    assert Retry(after=timedelta(minutes=1)).after_ms == 60_000
    assert Retry(after=-5).after_ms == 0


def test_a_snooze_ends_at_a_time_or_after_a_while_and_never_in_the_past() -> None:
    assert Snooze(after=2).until_ms(NOON) == NOON + 2_000
    assert Snooze(datetime.fromtimestamp(NOON / 1000 + 90, UTC)).until_ms(NOON) == NOON + 90_000
    assert Snooze(datetime.fromtimestamp(NOON / 1000 - 90, UTC)).until_ms(NOON) == NOON


@pytest.mark.parametrize(
    "given",
    [{}, {"until": datetime.fromtimestamp(0, UTC), "after": 1}, {"until": datetime(2027, 1, 1)}],  # noqa: DTZ001
)
def test_a_snooze_without_one_clear_time_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Snooze(**given)
