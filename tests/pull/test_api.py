"""The whole table of `/v1`: what every route refuses, and how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import functions.consumer.handler as consumer
from millrace.definitions import load
from millrace.openapi import document
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


@pytest.mark.parametrize(
    ("method", "path", "document", "status", "code"),
    [
        ("POST", "/v1/queues/Jbos/messages", {"body": 1}, 404, "unknown_queue"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("DELETE", "/v1/queues/Jobs/messages", None, 405, "method_not_allowed"),
        ("POST", f"{JOBS}/messages", {"bdy": 1}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "body_base64": "eA=="}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "delay_ms": -1}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "not_before": "soon"}, 400, "invalid_field"),
        ("POST", f"{JOBS}/dequeue", {"wait_ms": 20_001}, 400, "invalid_field"),
        ("POST", f"{JOBS}/ack", {"claim": "c1.e30.AAAAAAAAAAAAAAAAAAAAAA"}, 400, "invalid_request"),
        ("POST", f"{JOBS}/ack", {"claim": 7}, 400, "invalid_field"),
        ("GET", f"{JOBS}/state", None, 400, "invalid_request"),
        ("GET", f"{JOBS}/messages/doesnotexist", None, 404, "not_found"),
        ("GET", f"{JOBS}/messages/%00", None, 404, "not_found"),
        ("GET", f"{JOBS}/dead-letters", None, 404, "not_found"),
        ("POST", f"{JOBS}/pause", None, 404, "not_found"),
        ("POST", "/v1/queues/Keyed/messages", {"body": 1}, 400, "invalid_field"),
    ],
)
def test_refusals_are_typed(call: Caller, method: str, path: str, document: Any, status: int, code: str) -> None:
    got = call(method, path, document, headers={"X-Correlation-Id": "c-9"})
    assert (got.status, got.json["code"]) == (status, code)
    assert got.headers["Content-Type"] == "application/problem+json"
    assert got.headers["X-Correlation-Id"] == got.json["correlation_id"] == "c-9"


@pytest.mark.parametrize("body", [b"{", b'{"a":1,"a":2}', b"NaN", b"\xff", b"[" * 100_000, b'"\\ud800"'])
def test_what_is_not_json_is_refused(call: Caller, body: bytes) -> None:
    got = call("POST", f"{JOBS}/messages", content=body, headers={"content-type": "application/json"})
    assert (got.status, got.json["code"]) == (400, "invalid_request")


def test_a_fault_of_ours_shows_nothing_of_itself(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr(call.api.service, "queue", broken)
    got = call("POST", f"{JOBS}/messages", {"body": 1})
    assert (got.status, got.json["code"]) == (500, "internal")
    assert b"secret" not in got.content


def test_the_document_is_served_to_everybody(call: Caller) -> None:
    call.principal = None
    assert call("GET", "/v1/openapi.json").json == document()


@pytest.mark.parametrize("sample", sorted(Path("events").glob("consumer-*.json")), ids=lambda path: path.stem)
def test_each_sample_event_is_answered_by_the_handler(
    sample: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call.api.service, "definitions", load(Path("infra/definitions.json")))
    monkeypatch.setattr(consumer, "api", lambda: call.api)
    event = json.loads(sample.read_text())
    event["requestContext"]["authorizer"]["lambda"]["tenants"] = call.tenant
    wanted = {"consumer-ack": 400, "consumer-status": 404, "consumer-dequeue": 200, "consumer-enqueue-batch": 200}
    assert consumer.handler(event, None)["statusCode"] == wanted.get(sample.stem, 202)
