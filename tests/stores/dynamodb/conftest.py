"""The parts of the store over the model of DynamoDB, on a connection that fails as the test says: no engine starts."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.clock import Clock
from millrace.stores.dynamodb.client import TableNames
from tests.faults.client import FaultyClient, StoreOnFaultyClient
from tests.performance.simulation.dynamodb import SimulatedDynamoDB
from tests.performance.simulation.virtual_time import VirtualTime

NAMES = TableNames("queue", "dead-letters")


@pytest.fixture
def faults() -> FaultyClient:
    return FaultyClient(SimulatedDynamoDB(VirtualTime(), limits=False))


@pytest.fixture
def store(faults: FaultyClient, clock: Clock) -> StoreOnFaultyClient:
    return StoreOnFaultyClient(faults, NAMES, clock)


@pytest.fixture
def calls(store: StoreOnFaultyClient) -> Any:
    """Requests over that connection, without waits."""
    return store._calls
