"""Thousands of malformed calls: no 5xx, no traceback, nothing that a store refuses."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest

from millrace.engine.queue import Runtime
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.webhooks import Ingress, serve
from tests.conftest import Clock
from tests.webhooks.gate import open_gate
from tests.webhooks.hostile import ALLOWED, hostile_events

REQUESTS = 4_000
ON_ENGINE = 400


def _answer_all(ingress: Ingress, seed: int, count: int) -> collections.Counter[int]:
    statuses: collections.Counter[int] = collections.Counter()
    for number, event in enumerate(hostile_events(seed, count, ingress.runtime.clock())):
        served = serve(ingress, event)
        response = served.response
        statuses[response.status] += 1
        assert served.error is None, f"call {number} of seed {seed}: {served.error!r}"
        assert response.status in ALLOWED
        assert response.headers["X-Correlation-Id"] == served.correlation_id
        json.dumps(response.as_event()).encode("utf-8")
        response.body.encode("utf-8")
        if response.status >= 400:
            assert response.headers["Content-Type"] == "application/problem+json"
            assert json.loads(response.body)["correlation_id"] == served.correlation_id
    return statuses


def _echo(_name: str, given: Any, _correlation_id: str) -> Any:
    return given


@pytest.mark.parametrize("seed", [1, 2])
def test_malformed_calls_are_answered_without_a_fault(seed: int, clock: Clock, tenant: str) -> None:
    runtime = Runtime(MemoryStore(), MemoryBlobs(), clock=clock)
    statuses = _answer_all(open_gate(runtime, tenant, run_command=_echo), seed, REQUESTS // 2)
    assert {202, 400, 401, 404, 405, 422} <= set(statuses), statuses


def test_what_is_accepted_of_them_is_something_that_dynamodb_takes(
    engine_url: str, tables: TableNames, clock: Clock, tenant: str
) -> None:
    client = MinimalClient(engine_url, "eu-west-1", lambda: Credentials("local", "local"))
    runtime = Runtime(DynamoStore(client, tables, clock=clock), MemoryBlobs(), clock=clock)
    statuses = _answer_all(open_gate(runtime, tenant, run_command=_echo), 3, ON_ENGINE)
    client.close()
    assert statuses[202] > 20
