"""Tokens: stored hashed, refused alike, bound to scopes and tenants; on each store in turn."""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from millrace.model.errors import InvalidField, NotFound
from millrace.model.tokens import Scope, Token, Tokens, bearer, issue, revoke, verify
from tests.conftest import NOON, Clock


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "counts"),
    [(0, 0, [True, True]), (100, 0, [True, False]), (0, 1, [False, False])],
)
def test_a_token_counts_until_it_ends_or_is_revoked(expires_at: int, revoked_at: int, counts: list[bool]) -> None:
    token = Token("a", "n", b"", frozenset(Scope), ("*",), 0, expires_at, revoked_at)
    assert [token.counts(now) for now in (99, 100)] == counts


def test_a_token_verifies_and_reaches_what_it_was_given(tokens: Tokens, clock: Clock) -> None:
    token, text = issue(tokens, name="ci", scopes=[Scope.ENQUEUE], tenants=["acme", "beta"], clock=clock)
    found = verify(tokens, text, clock())
    assert found is not None
    assert (found.id, set(found.scopes), set(found.tenants)) == (token.id, {Scope.ENQUEUE}, {"acme", "beta"})
    assert text.startswith(f"mrt_{token.id}_")
    assert len(text.split("_", 2)[2]) == 43


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
    assert revoke(tokens, token.id, NOON + 1).revoked_at == revoke(tokens, token.id, NOON + 2).revoked_at == NOON + 1
    with pytest.raises(NotFound):
        revoke(tokens, "aaaaaaaaaaaaaaaa", NOON)
    assert token.id in {listed.id for listed in tokens.list_tokens()}


def test_the_claim_key_is_made_once_and_not_listed(tokens: Tokens) -> None:
    kept = tokens.claim_key(b"a" * 32)
    assert tokens.claim_key(b"b" * 32) == kept
    assert all(not token.id.startswith("~") for token in tokens.list_tokens())


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": []},
        {"tenants": []},
        {"tenants": ["no good"]},
        {"name": ""},
        {"name": "x" * 65},
        {"queues": ["no good"]},
    ],
)
def test_a_token_that_reaches_nothing_is_not_made(tokens: Tokens, clock: Clock, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        issue(tokens, **{"name": "x", "scopes": [Scope.READ], "tenants": ["a"], "clock": clock, **wrong})


@pytest.mark.parametrize(
    ("header", "text"),
    [("Bearer a", "a"), ("bearer  a ", "a"), (" bearer  a ", "a"), ("Basic a", ""), ("a", ""), ("", "")],
)
def test_bearer_headers(header: str, text: str) -> None:
    assert bearer(header) == text


def test_a_token_of_some_queues_keeps_them(tokens: Tokens, clock: Clock) -> None:
    given: dict[str, Any] = {"name": "x", "scopes": [Scope.READ], "tenants": ["a"], "clock": clock}
    limited, text = issue(tokens, queues=["Jobs", "Other", "Jobs"], **given)
    assert set(limited.queues) == {"Jobs", "Other"}
    found = verify(tokens, text, clock())
    assert found is not None
    assert set(found.queues) == {"Jobs", "Other"}
    assert issue(tokens, **given)[0].queues == ()
