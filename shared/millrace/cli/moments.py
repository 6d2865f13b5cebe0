"""Times and durations as a person types them: callbacks of options."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def duration(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Seconds, from a number with a unit: 90s, 10m, 2h, 1d."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration. Allowed: a number and s, m, h or d, as 10m.")
    return float(found[1]) * UNITS[found[2]]


def moment(_context: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    """An RFC 3339 time; one without an offset is of UTC."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no time. Allowed: RFC 3339, as 2026-11-20T08:00Z.") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
