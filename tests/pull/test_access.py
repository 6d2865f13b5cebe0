"""Tokens at the routes: the authoriser vouches for them, each route needs its scope, each token has its tenants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import functions.authoriser.handler as authoriser
from millrace.model.tokens import Scope, Tokens, issue
from millrace.openapi import V1_ROUTES
from tests.conftest import Clock
from tests.pull.calling import Caller

EVENT = json.loads(Path("events/authoriser-request.json").read_text())


def test_the_authoriser_vouches_for_a_token_and_says_nothing_of_others(
    tokens: Tokens, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authoriser, "tokens", lambda: tokens)
    monkeypatch.setattr(authoriser, "system_clock", clock)
    token, text = issue(tokens, name="ci", scopes=[Scope.ENQUEUE, Scope.READ], tenants=["acme"], clock=clock)
    event = {**EVENT, "headers": {**EVENT["headers"], "authorization": f"Bearer {text}"}}
    assert authoriser.handler(event, None) == {
        "isAuthorized": True,
        "context": {"token_id": token.id, "name": "ci", "scopes": "enqueue read", "tenants": "acme", "queues": ""},
    }
    assert authoriser.handler(EVENT, None) == {"isAuthorized": False}
    assert authoriser.handler({}, None) == {"isAuthorized": False}


def test_without_an_authoriser_every_route_stays_shut(call: Caller) -> None:
    call.principal = None
    answers = [call(route.method, route.path.replace("{queue}", "Jobs"), {}) for route in V1_ROUTES if route.scopes]
    assert {(answer.status, answer.json["code"]) for answer in answers} == {(401, "unauthorised")}


def test_each_route_needs_its_scope(call: Caller, tenant: str) -> None:
    for route in V1_ROUTES:
        if not route.scopes:
            continue
        others = " ".join(scope for scope in Scope if scope not in route.scopes)
        got = Caller(call.api, tenant, others)(route.method, route.path.replace("{queue}", "Jobs"), {})
        assert (got.status, got.json["code"]) == (403, "forbidden"), route.name


def test_a_token_reaches_its_own_tenants_only(call: Caller, tenant: str) -> None:
    message_id = call.enqueue("mine")["message_id"]
    assert call("GET", "/v1/queues", query="tenant_id=somebody-else").status == 403
    call.principal = {**(call.principal or {}), "tenants": f"{tenant} {tenant}b"}
    assert call("GET", "/v1/queues").status == 403, "several tenants: one has to be named"
    path = f"/v1/queues/Jobs/messages/{message_id}"
    assert [call("GET", path, query=f"tenant_id={name}").status for name in (tenant, f"{tenant}b")] == [200, 404]
    call.principal = {**call.principal, "tenants": "*"}
    assert call("GET", "/v1/queues", query=f"tenant_id={tenant}").status == 200
