"""Times and durations as a person types them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import pytest

from millrace.cli.moments import duration, moment

NOTHING: Any = None


@pytest.mark.parametrize(("typed", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5_400), ("1d", 86_400)])
def test_a_duration_has_a_unit(typed: str, seconds: float) -> None:
    assert duration(NOTHING, NOTHING, typed) == seconds


def test_a_time_has_an_offset_or_is_of_utc() -> None:
    eight = datetime(2026, 11, 20, 8, tzinfo=UTC)
    for typed in ("2026-11-20T08:00Z", "2026-11-20T09:00+01:00", "2026-11-20T08:00"):
        assert moment(NOTHING, NOTHING, typed) == eight


def test_anything_else_is_refused_with_what_is_allowed() -> None:
    assert (duration(NOTHING, NOTHING, None), moment(NOTHING, NOTHING, None)) == (None, None)
    with pytest.raises(click.BadParameter, match="10m"):
        duration(NOTHING, NOTHING, "soon")
    with pytest.raises(click.BadParameter, match="2026-11-20T08:00Z"):
        moment(NOTHING, NOTHING, "tomorrow")
