"""The machine's clock, in milliseconds."""

from __future__ import annotations

import time

from millrace.model.clock import DAY, MINUTE, system_chance, system_clock, system_entropy


def test_the_clock_reads_milliseconds() -> None:
    before = time.time() * 1000 - 1
    assert before <= system_clock() <= time.time() * 1000 + 1
    assert (MINUTE, DAY) == (60 * 1000, 24 * 60 * MINUTE)


def test_randomness_has_the_shape_that_the_core_asks_for() -> None:
    assert len(system_entropy(16)) == 16
    assert system_entropy(16) != system_entropy(16)
    assert 0 <= system_chance() < 1
