"""Tokens in one process's memory: for tests and for embedding."""

from __future__ import annotations

import threading

from millrace.model.tokens import Token


class MemoryTokens:
    """Tokens in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._claim_key: bytes | None = None

    def put_token(self, token: Token) -> None:
        with self._lock:
            self._tokens[token.id] = token

    def get_token(self, token_id: str) -> Token | None:
        with self._lock:
            return self._tokens.get(token_id)

    def list_tokens(self) -> list[Token]:
        with self._lock:
            return list(self._tokens.values())

    def claim_key(self, proposed: bytes) -> bytes:
        with self._lock:
            self._claim_key = self._claim_key or proposed
            return self._claim_key
