"""The times that providers sign."""

from __future__ import annotations

import pytest

from millrace.signatures import SignatureInvalid, preset
from millrace.signatures.scheme import TimestampFormat
from millrace.signatures.timestamps import clock_reading, demand_near
from tests.signatures.cases import NOW


@pytest.mark.parametrize(
    ("clock", "text", "moment"),
    [
        ("seconds", "1772442847", 1_772_442_847_000),
        ("milliseconds", "1772442847250", 1_772_442_847_250),
        ("rfc3339", "2026-03-02T09:14:07.250Z", 1_772_442_847_250),
        ("rfc3339", "2026-03-02T10:14:07.250123456+01:00", 1_772_442_847_250),
    ],
)
def test_a_time_is_read_in_its_unit(clock: str, text: str, moment: int) -> None:
    assert clock_reading(TimestampFormat(clock), text) == moment


@pytest.mark.parametrize("text", ["", "1.5", "-1", "\u0661", "1e3", "9" * 17, "2026-03-02"])
def test_what_is_no_time_is_refused(text: str) -> None:
    for clock in TimestampFormat:
        with pytest.raises(SignatureInvalid):
            clock_reading(clock, text)


def test_the_tolerance_has_both_its_ends() -> None:
    stripe = preset("stripe")
    for near in (NOW - 300_000, NOW + 300_000):
        demand_near(stripe, near, NOW)
    for far in (NOW - 300_001, NOW + 300_001):
        with pytest.raises(SignatureInvalid):
            demand_near(stripe, far, NOW)
