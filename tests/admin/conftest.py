"""The admin function on DynamoDB Local, as Lambda calls it."""

from __future__ import annotations

import pytest

import functions.admin.app as admin
from millrace.admin.jobs import Jobs
from millrace.admin.service import AdminService
from millrace.admin.trail import Trail
from millrace.queue import Runtime
from millrace.store import Store
from millrace.stores.admin_memory import MemoryJobs, MemoryTrail
from millrace.stores.dynamodb import DynamoStore
from millrace.stores.dynamodb.jobs import DynamoJobs
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.dynamodb.trail import DynamoTrail
from millrace.stores.memory import MemoryBlobs
from tests.admin.calling import DEFINITIONS, Caller
from tests.conftest import Clock


@pytest.fixture
def service(dynamo_store: DynamoStore, clock: Clock) -> AdminService:
    client, table = dynamo_store._calls.client, dynamo_store._names.queue
    return AdminService(
        Runtime(dynamo_store, MemoryBlobs(), clock=clock, chance=lambda: 0.5),
        DEFINITIONS,
        DynamoTokens(client, table),
        DynamoJobs(client, table),
        DynamoTrail(client, table),
    )


@pytest.fixture
def call(service: AdminService, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setattr(admin, "service", lambda: service)
    return Caller(admin.handler, tenant)


@pytest.fixture
def jobs(store: Store) -> Jobs:
    """Every store of jobs in turn."""
    return DynamoJobs(store._calls.client, store._names.queue) if isinstance(store, DynamoStore) else MemoryJobs()


@pytest.fixture
def trail(store: Store) -> Trail:
    return DynamoTrail(store._calls.client, store._names.queue) if isinstance(store, DynamoStore) else MemoryTrail()
