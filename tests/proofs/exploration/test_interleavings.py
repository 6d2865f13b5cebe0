"""The real code in thousands of orders, with deaths and lost answers: nothing breaks."""

from __future__ import annotations

import pytest

from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from tests.proofs.exploration.explorer import Bounds, Run, explore, replay, sample
from tests.proofs.exploration.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_order_within_the_bounds_keeps_the_promises(name: str) -> None:
    assert explore(SCENARIOS[name], Bounds(preemptions=2, crashes=0, losses=0), most=400) > 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_random_orders_with_deaths_and_lost_answers_keep_the_promises(name: str) -> None:
    assert sample(SCENARIOS[name], Bounds(preemptions=8, crashes=1, losses=1), range(500)) == 500


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_holds_on_the_real_engine(name: str, dynamo_store: DynamoStore) -> None:
    def on_dynamodb(run: Run, bounds: Bounds, _store: Store | None = None) -> None:
        SCENARIOS[name](run, bounds, dynamo_store)  # type: ignore[call-arg]

    assert sample(on_dynamodb, Bounds(preemptions=6, crashes=1, losses=1), range(6)) == 6


def test_an_orphan_whose_credit_the_sweep_has_found_gives_none_back() -> None:
    """A sender sleeps for minutes between its credit and its entry, and dies before it takes the entry back."""
    schedule = [0, 0, 1, 0, 1, *[0] * 12, 1, 0, 0, 0, 0]
    run = replay(SCENARIOS["a sender asleep past the grace"], Bounds(preemptions=1, crashes=1, losses=0), schedule)
    assert "sender dies before drop_entries" in run.trace
