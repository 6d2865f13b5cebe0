"""The admin function on DynamoDB Local, as Lambda calls it."""

from __future__ import annotations

import pytest

import functions.admin.app as admin
from millrace.admin.service import AdminService
from millrace.engine.queue import Runtime
from millrace.model.admin_jobs import AdminJobs
from millrace.model.audit import AuditLog
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryBlobs
from tests.admin.calling import DEFINITIONS, Caller
from tests.conftest import Clock


@pytest.fixture
def service(dynamo_store: DynamoStore, clock: Clock) -> AdminService:
    client, table = dynamo_store._calls.client, dynamo_store._names.queue
    return AdminService(
        Runtime(dynamo_store, MemoryBlobs(), clock=clock, chance=lambda: 0.5),
        DEFINITIONS,
        DynamoAdminJobs(client, table),
        DynamoAuditLog(client, table),
    )


@pytest.fixture
def call(service: AdminService, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setattr(admin, "service", lambda: service)
    return Caller(admin.handler, tenant)


@pytest.fixture
def jobs(store: Store) -> AdminJobs:
    """Every store of jobs in turn."""
    return (
        DynamoAdminJobs(store._calls.client, store._names.queue)
        if isinstance(store, DynamoStore)
        else MemoryAdminJobs()
    )


@pytest.fixture
def audit_log(store: Store) -> AuditLog:
    return (
        DynamoAuditLog(store._calls.client, store._names.queue) if isinstance(store, DynamoStore) else MemoryAuditLog()
    )
