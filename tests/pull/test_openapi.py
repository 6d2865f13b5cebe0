"""The OpenAPI document: what is checked in is what the code says, and it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import functions.consumer.handler as consumer
from millrace.definitions import load
from millrace.http.openapi import written
from millrace.pull.api import ROUTES, document
from tests.pull.calling import Caller

CHECKED_IN = Path("infra/openapi.json")


def test_the_checked_in_document_is_current() -> None:
    assert CHECKED_IN.read_text() == written(document()), "run `millrace openapi -o infra/openapi.json`"


def test_it_is_served_to_everybody(call: Caller) -> None:
    call.principal = None
    assert call("GET", "/v1/openapi.json").json == document()


def test_each_operation_has_its_own_name_scope_and_answers() -> None:
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    for path in document()["paths"].values():
        for operation in path.values():
            assert {"500"} <= operation["responses"].keys()
            assert operation["security"] == [] or operation["x-millrace-scope"]


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["$ref"]] if "$ref" in value else [ref for inner in value.values() for ref in _refs(inner)]
    return [ref for inner in value for ref in _refs(inner)] if isinstance(value, list) else []


def test_every_reference_leads_somewhere() -> None:
    schemas = document()["components"]["schemas"]
    assert {ref.rsplit("/", 1)[1] for ref in _refs(document())} <= schemas.keys()


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
