"""The running stack against its own OpenAPI document, `/v1` and `/admin`: no 5xx, and every answer is documented."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any
from zlib import crc32

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import CheckContext, CheckFunction, Response
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from millrace.openapi import document
from millrace.pull.claim_handles import MAX_HANDLE
from tests.proofs.attack import count
from tests.pull.stack import QUEUES, Stack

#: More of them, and every boundary of every field, in a longer run.
EXAMPLES = int(os.environ.get("MILLRACE_CONTRACT_EXAMPLES", "8"))
TENANT = f"contract{os.getpid()}"
STRANGER = f"stranger{os.getpid()}"


def _told_by_line(case: schemathesis.Case[Any], answer: Response) -> bool:
    """Whether something malformed was refused in the answer of its own line, as a batch does; of a batch that is
    malformed as a whole, and of its path and query, nothing else is believed than a refusal as a whole.
    """
    body: Any = case.body
    if not case.path.endswith("/batch") or answer.status_code != 200 or not isinstance(body, dict) or len(body) != 1:
        return False
    (sent,) = body.values()
    lines = answer.json()["items"]
    return len(lines) == len(sent) and any(line["http_status"] >= 400 for line in lines)


def negative_data_is_rejected_where_it_stands(
    ctx: CheckContext, response: Response, case: schemathesis.Case[Any]
) -> bool | None:
    """As a whole, or of a batch in the answer of its own line."""
    return None if _told_by_line(case, response) else negative_data_rejection(ctx, response, case)


def whole_answer_is_of_its_schema(ctx: CheckContext, response: Response, case: schemathesis.Case[Any]) -> bool | None:
    """A part of JSON need not be JSON."""
    return None if response.status_code == 206 else response_schema_conformance(ctx, response, case)


CHECKS: list[CheckFunction] = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    whole_answer_is_of_its_schema,
    negative_data_is_rejected_where_it_stands,
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


@pytest.fixture
def things(stack: Stack, authorisation: dict[str, str], claim: str) -> dict[str, list[str]]:
    """Names that exist, by the parameter that they stand in: each queue; messages ready, held, done, dead; jobs."""
    call = partial(httpx.post, headers=authorisation)
    jobs, ids = f"{stack.url}/v1/queues/Jobs", []
    for ending in ("", "dequeue", "ack", "nack"):
        sent = call(f"{jobs}/messages", json={"body": ending, "priority": 9999, "key": "k"}).json()
        ids.append(sent["message_id"])
        if ending:
            held = call(f"{jobs}/dequeue", json={"lease_ms": 600_000}).json()["messages"][0]["claim"]
        if ending in ("ack", "nack"):
            rejected = {"reject": True, "error": "no"} if ending == "nack" else {}
            call(f"{jobs}/{ending}", json={"claim": held, **rejected})
    admin = f"{stack.url}/admin/queues/Jobs"
    dead = httpx.get(f"{admin}/dead-letters", headers=authorisation).json()["dead_letters"]
    job = call(f"{admin}/jobs", json={"kind": "replay", "filter": {"error": "nothing like it"}}).json()["job_id"]
    erasure = call(f"{stack.url}/admin/erasures", json={"key": "k", "dry_run": True}).json()["job_id"]
    dead_ids = [one["id"] for one in dead]
    return {
        "queue": list(QUEUES),
        "message_id": ids,
        "dead_letter_id": dead_ids,
        "job_id": [job],
        "erasure_id": [erasure],
    }


def _made_real(case: schemathesis.Case[Any], claim: str, things: dict[str, list[str]]) -> None:
    """Where a generated name is well formed, put one that exists; what is malformed stays as it is."""
    path = case.meta.components.get(ParameterLocation.PATH) if case.meta else None
    malformed = path is not None and path.mode is GenerationMode.NEGATIVE
    for name, given in case.path_parameters.items() if not malformed else ():
        known = things["erasure_id"] if "/erasures/" in case.path else things.get(name, [])
        if known and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", str(given)):
            case.path_parameters[name] = known[crc32(str(given).encode()) % len(known)]
    tenant = str(case.query.get("tenant_id", ""))
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", tenant):
        case.query["tenant_id"] = STRANGER if crc32(tenant.encode()) % 4 == 0 else TENANT
    body: Any = case.body
    lines = body.get("items") if isinstance(body, dict) else []
    for given in [body, *(lines if isinstance(lines, list) else [])]:
        offered = str(given.get("claim", "")) if isinstance(given, dict) else ""
        if offered.startswith("c1.") and len(offered) <= MAX_HANDLE:
            given["claim"] = claim
    if isinstance(body, dict) and type(body.get("wait_ms")) is int and 0 <= body["wait_ms"] <= 20_000:
        body["wait_ms"] %= 50  # an idle queue would make the caller wait in earnest


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
def test_every_answer_is_documented(
    case: schemathesis.Case[Any],
    stack: Stack,
    authorisation: dict[str, str],
    claim: str,
    things: dict[str, list[str]],
) -> None:
    _made_real(case, claim, things)
    answer = case.call_and_validate(base_url=stack.url, headers=authorisation, checks=CHECKS, timeout=60)
    assert answer.status_code >= 400 or case.query.get("tenant_id") != STRANGER
    count("schemathesis", f"{case.method} {case.path}", [answer.status_code])
