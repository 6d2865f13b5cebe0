"""A step runs once where it is in the journal; its key is the same in every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from millrace.model.errors import InvalidField, StoreUnavailable
from millrace.model.journal import EFFECTS, STEPS, TARGETS, WRITE_TRIES, effect_key, effect_root, hidden, once, visible


class Kept:
    """A journal in memory whose writes may go unanswered."""

    def __init__(self, silent: int = 0) -> None:
        self.kept: dict[str, Any] = {}
        self.silent = silent
        self.writes = 0

    def steps(self) -> dict[str, Any]:
        return dict(self.kept)

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        self.writes += 1
        self.kept = dict(steps)
        if self.writes <= self.silent:
            raise StoreUnavailable("no answer")


def test_a_kept_step_is_not_run_again() -> None:
    journal, runs = Kept(), []

    def step() -> Any:
        runs.append(1)
        return (1, 2)

    assert once(journal, "charge", step) == [1, 2], "what JSON makes of it, in the first run too"
    assert once(journal, "charge", step) == [1, 2]
    assert once(journal, "other", lambda: None) is None
    assert len(runs) == 1
    assert journal.kept == {"charge": [1, 2], "other": None}


def test_a_step_that_raises_is_not_kept() -> None:
    journal = Kept()
    with pytest.raises(ZeroDivisionError):
        once(journal, "charge", lambda: 1 // 0)
    assert journal.writes == 0


def test_a_write_without_an_answer_is_repeated_and_the_step_is_not() -> None:
    journal, runs = Kept(silent=WRITE_TRIES - 1), []
    assert once(journal, "charge", lambda: runs.append(1)) is None
    assert (len(runs), journal.writes) == (1, WRITE_TRIES)
    with pytest.raises(StoreUnavailable):
        once(Kept(silent=WRITE_TRIES), "charge", lambda: 1)


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_step_has_a_name(name: str) -> None:
    with pytest.raises(InvalidField):
        once(Kept(), name, lambda: 1)


def test_a_value_that_json_cannot_spell_is_named() -> None:
    with pytest.raises(TypeError, match="Step 'charge' must return what JSON can spell"):
        once(Kept(), "charge", object)


def test_the_key_of_an_effect() -> None:
    root = effect_root("id", 1_000, {"x": "y"})
    assert effect_key(root, "charge") == effect_key(root, "charge")
    assert effect_key(root, "charge") != effect_key(root, "refund")
    assert effect_root("id", 1_001, {}) != root, "the same idempotency key after its window is other work"
    assert effect_root("new", 2_000, {EFFECTS: root}) == root


def test_a_handler_sees_only_what_is_its_own() -> None:
    stored = {"mine": 1, STEPS: {"charge": 1}, TARGETS: {"0": "done"}}
    assert visible(stored) == {"mine": 1}
    assert {**visible(stored), **hidden(stored)} == stored
