"""Tokens as items: the digest alone, and one key that signs claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.tokens import Scope, Token, issue
from millrace.stores.dynamodb.tokens import KEEP_SECONDS, DynamoTokens
from tests.conftest import NOON, Clock
from tests.faults.client import Answer, FaultyClient, Send, timed_out_after

TOKEN = Token("abc", "ci", b"d" * 32, frozenset({Scope.READ, Scope.ENQUEUE}), ("acme", "beta"), NOON, NOON + 1_000, 0)


@pytest.fixture
def tokens(faults: FaultyClient, calls: Any) -> DynamoTokens:
    client: Any = faults
    return DynamoTokens(client, "queue", calls=calls)


def item(faults: FaultyClient, token_id: str) -> dict[str, Any]:
    key = {"pk": {"S": "TOKENS"}, "sk": {"S": token_id}}
    found: dict[str, Any] = faults.get_item(TableName="queue", Key=key, ConsistentRead=True)["Item"]
    return found


def test_a_token_comes_back_with_every_field(tokens: DynamoTokens) -> None:
    tokens.put_token(TOKEN)
    found = tokens.get_token("abc")
    assert found is not None
    assert replace(found, tenants=tuple(sorted(found.tenants))) == TOKEN
    assert tokens.get_token("other") is None
    tokens.put_token(replace(TOKEN, revoked_at=NOON + 5))
    assert [token.revoked_at for token in tokens.list_tokens()] == [NOON + 5]


def test_only_the_digest_of_the_secret_is_stored(tokens: DynamoTokens, faults: FaultyClient, clock: Clock) -> None:
    token, text = issue(tokens, name="x", scopes=[Scope.READ], tenants=["*"], clock=clock)
    stored = item(faults, token.id)
    assert text.split("_", 2)[2] not in repr(stored)
    assert len(stored["digest"]["B"]) == 32


def test_a_token_is_looked_up_strongly_consistent(tokens: DynamoTokens, faults: FaultyClient) -> None:
    """Else one that was revoked a moment ago might still be taken."""
    asked: list[dict[str, Any]] = []

    def noted(send: Send, _operation: str, arguments: dict[str, Any]) -> Answer:
        asked.append(arguments)
        return send(**arguments)

    faults.plan(noted)
    tokens.get_token("abc")
    assert [arguments["ConsistentRead"] for arguments in asked] == [True]


def test_an_expired_token_is_listed_for_a_while_and_one_without_an_end_for_good(
    tokens: DynamoTokens, faults: FaultyClient
) -> None:
    tokens.put_token(TOKEN)
    assert item(faults, "abc")["ttl"] == {"N": str((NOON + 1_000) // 1000 + KEEP_SECONDS)}
    tokens.put_token(replace(TOKEN, expires_at=0))
    assert "ttl" not in item(faults, "abc")


def test_the_claim_key_is_made_once_and_not_listed(tokens: DynamoTokens, faults: FaultyClient) -> None:
    faults.plan(lambda send, _operation, arguments: send(**arguments), timed_out_after)
    assert tokens.claim_key(b"a" * 32) == b"a" * 32, "its own write, though the answer was lost"
    assert tokens.claim_key(b"b" * 32) == b"a" * 32
    assert tokens.list_tokens() == []


def test_of_two_who_make_the_claim_key_at_once_the_second_gets_the_first_ones(
    tokens: DynamoTokens, faults: FaultyClient
) -> None:
    def another_process_is_faster(send: Send, _operation: str, arguments: dict[str, Any]) -> Answer:
        answer = send(**arguments)
        assert tokens.claim_key(b"first" * 6) == b"first" * 6
        return answer

    faults.plan(another_process_is_faster)
    assert tokens.claim_key(b"second") == b"first" * 6
