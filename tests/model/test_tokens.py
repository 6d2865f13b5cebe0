"""When a token counts, and how one is made and read, without a table. Over the stores: `tests/pull/test_tokens.py`."""

from __future__ import annotations

import pytest

from millrace.model.tokens import Scope, Token, bearer, issue, revoke, verify
from millrace.stores.memory.admin import MemoryTokens


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "counts"),
    [(0, 0, [True, True]), (100, 0, [True, False]), (0, 1, [False, False])],
)
def test_a_token_counts_until_it_ends_or_is_revoked(expires_at: int, revoked_at: int, counts: list[bool]) -> None:
    token = Token("a", "n", b"", frozenset(Scope), ("*",), 0, expires_at, revoked_at)
    assert [token.counts(now) for now in (99, 100)] == counts


def test_a_token_is_known_by_its_text_until_it_is_revoked() -> None:
    tokens = MemoryTokens()
    token, text = issue(tokens, name="ci", scopes=[Scope.ENQUEUE], tenants=["t"], clock=lambda: 5)
    assert verify(tokens, text, 6) == token
    assert verify(tokens, text[:-1] + ("A" if text[-1] != "A" else "B"), 6) is None
    assert revoke(tokens, token.id, 7).revoked_at == revoke(tokens, token.id, 8).revoked_at == 7
    assert verify(tokens, text, 9) is None


def test_only_a_bearer_header_holds_a_token() -> None:
    assert [bearer(text) for text in ("Bearer x", " bearer  x ", "Basic x", "x")] == ["x", "x", "", ""]
