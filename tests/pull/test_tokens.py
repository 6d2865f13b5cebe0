"""Tokens and the authoriser: stored hashed, refused alike, bound to scopes and tenants."""

from __future__ import annotations

import hmac
import json
from pathlib import Path
from typing import Any

import pytest

import functions.authoriser.handler as authoriser
from millrace.model.errors import InvalidField, NotFound
from millrace.model.tokens import Scope, Tokens, bearer, issue, revoke, verify
from millrace.openapi import V1_ROUTES
from millrace.stores.dynamodb.store import DynamoStore
from tests.conftest import NOON, Clock
from tests.pull.calling import Caller

EVENT = json.loads(Path("events/authoriser-request.json").read_text())


def test_a_token_verifies_and_reaches_what_it_was_given(tokens: Tokens, clock: Clock) -> None:
    token, text = issue(tokens, name="ci", scopes=[Scope.ENQUEUE], tenants=["acme", "beta"], clock=clock)
    found = verify(tokens, text, clock())
    assert found is not None
    assert (found.id, set(found.scopes), set(found.tenants)) == (token.id, {Scope.ENQUEUE}, {"acme", "beta"})
    assert text.startswith(f"mrt_{token.id}_")
    assert len(text.split("_", 2)[2]) == 43


def test_only_the_digest_of_the_secret_is_stored(dynamo_store: DynamoStore, clock: Clock) -> None:
    from millrace.stores.dynamodb.tokens import DynamoTokens

    client, table = dynamo_store._calls.client, dynamo_store._names.queue
    token, text = issue(DynamoTokens(client, table), name="x", scopes=[Scope.READ], tenants=["*"], clock=clock)
    item = client.get_item(TableName=table, Key={"pk": {"S": "TOKENS"}, "sk": {"S": token.id}})["Item"]
    assert text.split("_", 2)[2] not in repr(item)
    assert len(item["digest"]["B"]) == 32


def test_every_refusal_is_the_same_none(tokens: Tokens, clock: Clock) -> None:
    _, good = issue(tokens, name="x", scopes=[Scope.READ], tenants=["*"], clock=clock)
    _, expired = issue(tokens, name="x", scopes=[Scope.READ], tenants=["*"], clock=clock, expires_at=clock() + 1_000)
    revoked_token, revoked = issue(tokens, name="x", scopes=[Scope.READ], tenants=["*"], clock=clock)
    revoke(tokens, revoked_token.id, clock())
    assert verify(tokens, expired, clock()) is not None
    clock.forward(1_000)
    head, id_, secret = good.split("_", 2)
    changed = ("A" if secret[0] != "A" else "B") + secret[1:]
    wrong = [
        expired,
        revoked,
        f"{head}_{id_}_{changed}",
        f"{head}_{'a' * 16}_{secret}",
        "",
        "mrt_",
        "x" * 5000,
        good + "x",
    ]
    assert [verify(tokens, text, clock()) for text in wrong] == [None] * len(wrong)
    assert verify(tokens, good, clock()) is not None


def test_an_unknown_id_is_compared_too(tokens: Tokens, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time it takes tells nothing of which ids exist."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    verify(tokens, f"mrt_{'a' * 16}_{'b' * 43}", clock())
    verify(tokens, "nonsense", clock())
    assert len(compared) == 2


def test_revoking_twice_keeps_the_first_time(tokens: Tokens, clock: Clock) -> None:
    token, _ = issue(tokens, name="x", scopes=[Scope.READ], tenants=["a"], clock=clock)
    assert revoke(tokens, token.id, NOON + 1).revoked_at == revoke(tokens, token.id, NOON + 2).revoked_at
    with pytest.raises(NotFound):
        revoke(tokens, "aaaaaaaaaaaaaaaa", NOON)
    assert token.id in {listed.id for listed in tokens.list_tokens()}


def test_the_claim_key_is_made_once_and_not_listed(tokens: Tokens) -> None:
    kept = tokens.claim_key(b"a" * 32)
    assert tokens.claim_key(b"b" * 32) == kept
    assert all(not token.id.startswith("~") for token in tokens.list_tokens())


@pytest.mark.parametrize(
    "wrong", [{"scopes": []}, {"tenants": []}, {"tenants": ["no good"]}, {"name": ""}, {"name": "x" * 65}]
)
def test_a_token_that_reaches_nothing_is_not_made(tokens: Tokens, clock: Clock, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        issue(tokens, **{"name": "x", "scopes": [Scope.READ], "tenants": ["a"], "clock": clock, **wrong})


@pytest.mark.parametrize(
    ("header", "text"), [("Bearer a", "a"), ("bearer  a ", "a"), ("Basic a", ""), ("a", ""), ("", "")]
)
def test_bearer_headers(header: str, text: str) -> None:
    assert bearer(header) == text


def test_the_authoriser_vouches_for_a_token_and_says_nothing_of_others(
    tokens: Tokens, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authoriser, "tokens", lambda: tokens)
    monkeypatch.setattr(authoriser, "system_clock", clock)
    token, text = issue(tokens, name="ci", scopes=[Scope.ENQUEUE, Scope.READ], tenants=["acme"], clock=clock)
    event = {**EVENT, "headers": {**EVENT["headers"], "authorization": f"Bearer {text}"}}
    assert authoriser.handler(event, None) == {
        "isAuthorized": True,
        "context": {"token_id": token.id, "name": "ci", "scopes": "enqueue read", "tenants": "acme"},
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
