"""Transactions and steps keep their promises in every order; each guard that is taken out is noticed."""

from __future__ import annotations

import pytest

from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from tests.proofs.exploration.explorer import Bounds, Run, Violation, explore, sample
from tests.proofs.exploration.transactions import TRANSACT_MUTANTS, TRANSACTIONS


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_every_order_within_the_bounds_keeps_the_promises(name: str) -> None:
    assert explore(TRANSACTIONS[name], Bounds(preemptions=2, crashes=0, losses=0), most=250) > 10


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_every_crash_and_every_lost_answer_alone_keeps_the_promises(name: str) -> None:
    """Each store call of the first actors, with a crash before it or its answer lost."""
    assert explore(TRANSACTIONS[name], Bounds(preemptions=0, crashes=1, losses=1), most=400) > 10


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_random_orders_with_deaths_and_lost_answers_keep_the_promises(name: str) -> None:
    assert sample(TRANSACTIONS[name], Bounds(preemptions=8, crashes=1, losses=1), range(300)) == 300


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_the_same_holds_on_the_real_engine(name: str, dynamo_store: DynamoStore) -> None:
    def on_dynamodb(run: Run, bounds: Bounds, _store: Store | None = None) -> None:
        TRANSACTIONS[name](run, bounds, dynamo_store)  # type: ignore[call-arg]

    assert sample(on_dynamodb, Bounds(preemptions=6, crashes=1, losses=1), range(4)) == 4


@pytest.mark.parametrize("name", TRANSACT_MUTANTS)
def test_a_broken_guard_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = TRANSACT_MUTANTS[name]
    mutant.patch(monkeypatch)
    scenario = TRANSACTIONS[mutant.scenario]

    def hunt() -> None:
        for seed in range(0, 2_000, 100):
            sample(scenario, Bounds(preemptions=8, crashes=0, losses=0), range(seed, seed + 100))
            sample(scenario, Bounds(preemptions=8, crashes=0, losses=2), range(seed, seed + 100))
            sample(scenario, Bounds(preemptions=8, crashes=1, losses=2), range(seed, seed + 100))

    with pytest.raises(Violation):
        hunt()
