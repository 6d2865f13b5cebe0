"""The admin function on DynamoDB Local, as Lambda calls it."""

from __future__ import annotations

import pytest

import functions.admin.app as admin
from millrace.admin.service import AdminService
from millrace.engine.queue import Runtime
from millrace.model.admin_jobs import AdminJob, AdminJobs
from millrace.model.audit import AuditLog
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryBlobs
from tests.admin.calling import DEFINITIONS, Caller
from tests.conftest import Clock


class JobsOfTenant(DynamoAdminJobs):
    """Finds one tenant's open jobs alone: tests share a table, and nobody runs another's job by a clock that stands."""

    tenant = ""

    def list_open(self) -> list[AdminJob]:
        return [job for job in super().list_open() if job.tenant == self.tenant]


@pytest.fixture
def service(dynamo_store: DynamoStore, clock: Clock, tenant: str) -> AdminService:
    client, table = dynamo_store._calls.client, dynamo_store._names.queue
    jobs = JobsOfTenant(client, table)
    jobs.tenant = tenant
    return AdminService(
        Runtime(dynamo_store, MemoryBlobs(), clock=clock, chance=lambda: 0.5),
        DEFINITIONS,
        jobs,
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
