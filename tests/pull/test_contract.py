"""The running stack against its own OpenAPI document, `/v1` and `/admin`: no 5xx, and every answer is documented."""

from __future__ import annotations

import os
import re
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from millrace.openapi import document
from tests.pull.stack import Stack

#: More of them, and every boundary of every field, in a longer run.
EXAMPLES = int(os.environ.get("MILLRACE_CONTRACT_EXAMPLES", "8"))
TENANT = f"contract{os.getpid()}"
CHECKS: list[CheckFunction] = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
schema = schemathesis.openapi.from_dict(document())
schema.config.phases.coverage.enabled = EXAMPLES > 20


@pytest.fixture(scope="session")
def authorisation(stack: Stack) -> dict[str, str]:
    return {"Authorization": f"Bearer {stack.token(TENANT)}"}


@pytest.fixture
def claim(stack: Stack, authorisation: dict[str, str]) -> str:
    """A live claim, so that what needs one gets as far as the queue."""
    jobs = f"{stack.url}/v1/queues/Jobs"
    httpx.post(f"{stack.url}/admin/queues/Jobs/resume", headers=authorisation)
    httpx.post(f"{jobs}/messages", json={"body": 1, "priority": 9999}, headers=authorisation)
    held = httpx.post(f"{jobs}/dequeue", json={"lease_ms": 600_000}, headers=authorisation).json()
    return str(held["messages"][0]["claim"])


def _made_real(case: schemathesis.Case[Any], claim: str) -> None:
    """Where a generated name is well formed, put one that exists; what is malformed stays as it is."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", str(case.path_parameters.get("queue", ""))):
        case.path_parameters["queue"] = "Jobs"
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", str(case.query.get("tenant_id", ""))):
        case.query["tenant_id"] = TENANT
    body: Any = case.body
    for given in [body, *(body.get("items") or [])] if isinstance(body, dict) else []:
        if isinstance(given, dict) and str(given.get("claim", "")).startswith("c1."):
            given["claim"] = claim
    if isinstance(body, dict) and type(body.get("wait_ms")) is int and 0 <= body["wait_ms"] <= 20_000:
        body["wait_ms"] %= 50  # an idle queue would make the caller wait in earnest


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
def test_every_answer_is_documented(
    case: schemathesis.Case[Any], stack: Stack, authorisation: dict[str, str], claim: str
) -> None:
    _made_real(case, claim)
    case.call_and_validate(base_url=stack.url, headers=authorisation, checks=CHECKS, timeout=60)
