"""Times, durations and bytes, as JSON spells them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from millrace.definitions.spelling import (
    format_bytes,
    format_duration,
    format_time,
    parse_bytes,
    parse_duration,
    parse_time,
)


def test_a_time_is_an_instant_whatever_its_offset() -> None:
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert parse_time("2026-03-02T12:00:00Z") == parse_time("2026-03-02t14:00:00+02:00") == noon
    assert format_time(noon) == "2026-03-02T12:00:00Z"


def test_a_duration_is_written_in_seconds() -> None:
    assert parse_duration("1h30m") == timedelta(minutes=90)
    assert parse_duration("-1.5s") == timedelta(seconds=-1.5)
    assert format_duration(timedelta(minutes=90)) == "5400s"
    assert format_duration(timedelta(seconds=-1.5)) == "-1.5s"


def test_bytes_are_base64() -> None:
    assert parse_bytes(format_bytes(b"\x00\xff")) == b"\x00\xff"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_time, "2026-03-02 12:00:00Z"),
        (parse_time, "2026-03-02T12:00:00"),
        (parse_time, "2026-13-02T12:00:00Z"),
        (parse_time, "0001-01-01T00:00:00+14:00"),
        (parse_duration, ""),
        (parse_duration, "90"),
        (parse_duration, "1h-30m"),
        (parse_duration, "999999999999999999h"),
        (parse_bytes, "a"),
        (parse_bytes, "ä==="),
        (parse_bytes, "YQ==\n"),
    ],
)
def test_anything_else_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
