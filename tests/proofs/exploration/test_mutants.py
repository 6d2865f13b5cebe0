"""The explorer can fail: it catches every deliberate breakage."""

from __future__ import annotations

import pytest

from tests.proofs.exploration.explorer import Bounds, Scenario, Violation, explore, replay, sample
from tests.proofs.exploration.mutants import MUTANTS
from tests.proofs.exploration.scenarios import SCENARIOS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_guard_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.patch(monkeypatch)
    scenario = SCENARIOS[mutant.scenario]
    with pytest.raises(Violation):
        _hunt(scenario)


def _hunt(scenario: Scenario) -> None:
    """Calm schedules and troubled ones in turn: some breakages show only in the one, some only in the other."""
    for seed in range(0, 2_000, 100):
        sample(scenario, Bounds(preemptions=8, crashes=0, losses=0), range(seed, seed + 100))
        sample(scenario, Bounds(preemptions=8, crashes=1, losses=1), range(seed, seed + 100))


def test_a_caught_schedule_replays_from_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS["ack without token"]
    mutant.patch(monkeypatch)
    scenario, bounds = SCENARIOS[mutant.scenario], Bounds(preemptions=2, crashes=0, losses=0)
    with pytest.raises(Violation) as first:
        explore(scenario, bounds, most=1_000)
    numbers = str(first.value).split("schedule [", 1)[1].split("]", 1)[0]
    choices = [int(number) for number in numbers.split(",")]
    with pytest.raises(Violation) as again:
        replay(scenario, bounds, choices)
    assert str(again.value) == str(first.value)
