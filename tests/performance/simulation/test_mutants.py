"""The simulation can fail: it notices every mend of liveness that is taken out, and nothing without that."""

from __future__ import annotations

import pytest

from tests.performance.simulation.aws import FunctionError
from tests.performance.simulation.mutants import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mend_taken_out_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.check(monkeypatch)
    monkeypatch.undo()
    mutant.patch(monkeypatch)
    with pytest.raises((AssertionError, FunctionError)):
        mutant.check(monkeypatch)
