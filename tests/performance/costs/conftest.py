"""A metered bench on each engine."""

from __future__ import annotations

import os
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.tables import create_tables
from tests.performance.costs.measures import Bench
from tests.performance.costs.meter import Meter

Metered = tuple[Any, TableNames, Meter]


@pytest.fixture(scope="session")
def metered_dynamodb(engine_url: str, tables: TableNames) -> Metered:
    client = dynamodb_client(endpoint_url=engine_url, region=REGION)
    return client, tables, Meter(client, reports_batches=False)


@pytest.fixture(scope="session")
def metered_ministack(ministack_url: str) -> Metered:
    names = TableNames(f"costs-{os.getpid()}", f"costs-dead-{os.getpid()}")
    create_tables(names, endpoint_url=ministack_url, region=REGION)
    client = dynamodb_client(endpoint_url=ministack_url, region=REGION)
    return client, names, Meter(client, reports_batches=True)


@pytest.fixture
def dynamodb_bench(metered_dynamodb: Metered, tenant: str) -> Bench:
    """For what only DynamoDB Local tells: sizes and reads."""
    return Bench(*metered_dynamodb, tenant)


@pytest.fixture(params=["dynamodb", "ministack"])
def bench(request: pytest.FixtureRequest, tenant: str) -> Bench:
    """On each engine: between them they report every kind of write."""
    metered: Metered = request.getfixturevalue(f"metered_{request.param}")
    return Bench(*metered, tenant)
