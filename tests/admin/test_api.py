"""Every route of the admin API, through the admin function on DynamoDB Local."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import functions.admin.app as admin
from millrace.admin.api import ROUTES
from millrace.admin.service import AdminService
from millrace.definitions import load
from millrace.openapi import document
from tests.admin.calling import Caller, bury


def _concrete(path: str) -> str:
    names = {"queue": "Jobs", "message_id": "m1", "dead_letter_id": "1800000000000.m1", "job_id": "j1"}
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_needs_its_scope_and_refuses_with_a_problem_document(call: Caller, route: Any) -> None:
    path = _concrete(route.path)
    assert route.scopes
    assert call.principal is not None
    call.principal["scopes"] = "consume enqueue"
    got = call(route.method, path)
    assert (got.status, got.json["code"], got.headers["Content-Type"]) == (403, "forbidden", "application/problem+json")
    call.principal = None
    got = call(route.method, path)
    assert (got.status, got.json["code"]) == (401, "unauthorised")
    assert got.headers["X-Correlation-Id"] == got.json["correlation_id"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_in_the_one_openapi_document(route: Any) -> None:
    operation = document()["paths"][route.path][route.method.lower()]
    assert operation["operationId"] == route.name
    assert operation["x-millrace-scopes"] == list(route.scopes)
    assert {"400", "401", "403", "404", "500", "503"} <= operation["responses"].keys()


def test_what_changes_needs_the_operate_scope() -> None:
    looks = {"dry_run"}
    for route in ROUTES:
        assert (route.scopes == ("operate",)) == (route.method != "GET" and route.name not in looks), route.name


def test_unknown_paths_and_methods_are_problems_too(call: Caller) -> None:
    got = call("GET", "/admin/nothing")
    assert (got.status, got.json["code"]) == (404, "not_found")
    got = call("PUT", "/admin/queues/Jobs/pause")
    assert (got.status, got.json["code"], got.headers["Allow"]) == (405, "method_not_allowed", "POST")
    got = call("GET", "/admin/queues/Jbos")
    assert (got.status, got.json["code"]) == (404, "unknown_queue")
    got = call("GET", "/admin/queues/Jobs/messages", query="lain=ready")
    assert (got.status, got.json["field"]) == (400, "lain")
    got = call("POST", "/admin/queues/Jobs/jobs", {"kind": "explode"})
    assert (got.status, got.json["field"]) == (400, "kind")


def test_requests_served_at_once_do_not_mix(call: Caller, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the local stack: both requests are with the function before either is answered."""
    together, service = threading.Barrier(2, timeout=30), admin.service()

    def meet() -> AdminService:
        together.wait()
        return service

    monkeypatch.setattr(admin, "service", meet)

    def ask(name: str) -> str:
        caller = Caller(admin.handler, tenant)
        assert caller.principal is not None
        caller.principal["name"] = name
        return str(caller.ok("GET", "/admin/whoami")["name"])

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, ["one", "other"])) == ["one", "other"]


def test_a_fault_of_ours_shows_nothing_of_itself(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.admin.queues.show_stats", lambda *_: 1 / 0)
    got = call("GET", "/admin/queues")
    assert (got.status, got.json["code"]) == (500, "internal")
    assert b"division" not in got.content


def test_every_answer_fits_its_schema(call: Caller, service: AdminService) -> None:
    """What the document promises of a success is what comes: no member more, none less."""
    bury(service.queue(call.tenant, "Jobs"), 1)
    dead_letter = call.ok("GET", "/admin/queues/Jobs/dead-letters")["dead_letters"][0]
    job = call.ok("POST", "/admin/queues/Jobs/jobs", {"kind": "replay"})
    erasure = call.ok("POST", "/admin/erasures", {"key": "k", "dry_run": True})
    names = {
        "/admin/erasures/{job_id}": f"/admin/erasures/{erasure['job_id']}",
        "{message_id}": dead_letter["message_id"],
        "{dead_letter_id}": dead_letter["id"],
        "{job_id}": job["job_id"],
    }
    for route in ROUTES:
        path = route.path.replace("{queue}", "Jobs")
        for name, value in names.items():
            path = path.replace(name, value)
        if route.method == "GET" and not path.endswith("/body"):
            answer = call.ok("GET", path, query="q=x" if path.endswith("search") else "")
            _check(answer, route.replies[200].schema, route.name)


def _check(value: Any, schema: Any, where: str) -> None:
    if "anyOf" in schema:
        schema = next(kind for kind in schema["anyOf"] if (kind["type"] == "null") == (value is None))
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    python = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}
    fits = [value is None if kind == "null" else isinstance(value, python[kind]) for kind in kinds if kind]
    assert not fits or any(fits), where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= value.keys() <= schema["properties"].keys(), where
        for name, inner in value.items():
            _check(inner, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        for inner in value:
            _check(inner, schema["items"], where)


@pytest.mark.parametrize("sample", sorted(Path("events").glob("admin-*.json")), ids=lambda path: path.stem)
def test_each_sample_event_is_answered_by_the_handler(
    sample: Path, call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "definitions", load(Path("infra/definitions.json")))
    event = json.loads(sample.read_text())
    if "requestContext" not in event:
        assert admin.handler(event, None).keys() == {"ran"}
        return
    event["requestContext"]["authorizer"]["lambda"]["tenants"] = call.tenant
    wanted = {"admin-start-replay-job": 202, "admin-show-dead-letter": 404}
    assert admin.handler(event, None)["statusCode"] == wanted.get(sample.stem, 200)
