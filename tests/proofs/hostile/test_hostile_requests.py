"""The table of hostile requests, over the real handlers on DynamoDB Local: each refused as it says, nothing written."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

import functions.admin.app as admin
from functions.ingress import handler as ingress
from infra.local.dynamodb import REGION
from millrace.admin.service import AdminService
from millrace.engine.queue import Runtime
from millrace.http.routes import Api
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.memory.queue import MemoryBlobs
from tests.conftest import WORKER, Clock
from tests.proofs.attack import count
from tests.proofs.hostile.cases import Case, table
from tests.pull.calling import DEFINITIONS, EVERY_SCOPE
from tests.webhooks.gate import open_gate

CASES = list(table())
Handler = Callable[[Any, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def own_tables(engine_url: str) -> TableNames:
    """Where nothing lies but what a hostile request left behind."""
    names = TableNames(f"hostile-{WORKER}-queue", f"hostile-{WORKER}-dead-letters")
    create_tables(names, endpoint_url=engine_url, region=REGION)
    return names


@pytest.fixture
def dynamo_store(engine_client: DynamoDBClient, own_tables: TableNames, clock: Clock) -> DynamoStore:
    return DynamoStore(engine_client, own_tables, clock=clock)


@pytest.fixture
def handlers(
    dynamo_store: DynamoStore,
    engine_client: DynamoDBClient,
    own_tables: TableNames,
    clock: Clock,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Handler]:
    """The three HTTP functions of a deployment over one table."""
    runtime = Runtime(dynamo_store, MemoryBlobs(), clock=clock, chance=lambda: 0.5)
    client, name = engine_client, own_tables.queue
    tokens, audit_log = DynamoTokens(client, name), DynamoAuditLog(client, name)
    api = Api(PullService(runtime, DEFINITIONS, tokens, Dispatcher(schedule=SHARED)), V1_ROUTES)
    service = AdminService(runtime, DEFINITIONS, DynamoAdminJobs(client, name), audit_log)
    gate = open_gate(runtime, tenant)
    monkeypatch.setattr(admin, "service", lambda: service)
    monkeypatch.setattr(ingress, "ingress", lambda: gate)
    return {"api": lambda event, _context: api.handle(event), "admin": admin.handler, "hook": ingress.handler}


def event_of(case: Case, tenant: str) -> dict[str, Any]:
    query = case.query
    if case.cursor:
        parts = [part.replace("{tenant}", tenant) if isinstance(part, str) else part for part in case.cursor]
        query = "cursor=" + quote(base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode())
    return {
        "version": "2.0",
        "rawPath": case.path,
        "rawQueryString": query,
        "headers": dict(case.headers),
        "requestContext": {
            "stage": "$default",
            "domainName": "hooks.example.com",
            "http": {"method": case.method, "path": case.path, "sourceIp": "203.0.113.9"},
            "authorizer": {"lambda": {"token_id": "t", "name": "n", "scopes": EVERY_SCOPE, "tenants": tenant}},
        },
        "body": base64.b64encode(case.body).decode(),
        "isBase64Encoded": True,
        **({"isBase64Encoded": False, **case.raw} if case.raw else {}),
    }


def everything(client: DynamoDBClient, names: TableNames) -> list[str]:
    """What lies in the tables, but for the audit log and the seal of claims."""
    scans = [client.scan(TableName=name) for name in (names.queue, names.dead_letters)]
    keys = [item["pk"]["S"] for scan in scans for item in scan["Items"]]
    return [key for key in keys if not key.startswith(("AUDIT", "CLAIM_KEY"))]


@pytest.mark.parametrize("at", ["api", "admin", "hook"])
def test_every_hostile_request_gets_its_answer_and_changes_nothing(
    at: str, handlers: dict[str, Handler], engine_client: DynamoDBClient, own_tables: TableNames, tenant: str
) -> None:
    wrong = [said for case in CASES if case.at == at and (said := _unexpected(case, handlers[at], tenant))]
    assert wrong == [], "\n".join(wrong)
    for case in CASES:
        if case.at == at:
            count("hostile requests", f"{case.at} {case.method}", [case.status])
    assert everything(engine_client, own_tables) == []


def _unexpected(case: Case, handler: Handler, tenant: str) -> str:
    """What is wrong with the answer; empty where it is the one that the table names."""
    answer = handler(event_of(case, tenant), None)
    body = answer["body"]
    body.encode("utf-8")
    assert all("\n" not in value and "\r" not in value for value in answer["headers"].values()), case.name
    told = json.loads(body)
    code = told.get("code", "") if answer["statusCode"] >= 400 else ""
    typed = answer["headers"]["Content-Type"] == "application/problem+json" if code else case.code == ""
    if answer["statusCode"] != case.status or code not in (case.code.split() or [""]) or not typed:
        return f"{case.at} {case.name}: {answer['statusCode']} {code}, not {case.status} {case.code}"
    if len(body) > 4_000 and code:
        return f"{case.name}: a refusal of {len(body)} bytes"
    return ""


def test_names_are_unique_and_plenty() -> None:
    names = [f"{case.at} {case.name}" for case in CASES]
    assert len(set(names)) == len(names) >= 180
