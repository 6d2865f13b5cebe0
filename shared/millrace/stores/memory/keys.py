"""Keys in memory, in place of AWS KMS: for tests. Every name has a key; tests disable, enable and delete them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from millrace.model.encryption import NONCE_BYTES, DataKey
from millrace.model.errors import KeyLost, KeyUnavailable


class MemoryKeys:
    """A key service of one process. A key comes into being when it is first named."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}  #: name → id
        self._secrets: dict[str, bytes] = {}  #: id → key
        self._disabled: set[str] = set()
        self.calls: list[tuple[str, str]] = []  #: what was asked of which key

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.calls.append(("generate", key))
        if key not in self._ids:
            self._ids[key] = f"memory:{key}"
            self._secrets[f"memory:{key}"] = os.urandom(32)
        key_id = self._ids[key]
        if key_id not in self._secrets:
            raise KeyUnavailable(key, "it is gone.")
        self._demand_enabled(key_id)
        secret, nonce = os.urandom(32), os.urandom(NONCE_BYTES)
        wrapped = AESGCM(self._secrets[key_id]).encrypt(nonce, secret, _spelled(context))
        return DataKey(key_id, nonce + wrapped, secret)

    def unwrap(self, key_id: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.calls.append(("unwrap", key_id))
        if key_id not in self._secrets:
            raise KeyLost(key_id)
        self._demand_enabled(key_id)
        nonce, encrypted = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return AESGCM(self._secrets[key_id]).decrypt(nonce, encrypted, _spelled(context))
        except (InvalidTag, ValueError) as error:
            raise KeyLost(key_id) from error

    def disable(self, key: str) -> None:
        self._disabled.add(self._ids.get(key, f"memory:{key}"))

    def enable(self, key: str) -> None:
        self._disabled.discard(self._ids.get(key, f"memory:{key}"))

    def delete(self, key: str) -> None:
        """Nothing that was encrypted under it can be read any more, and nothing more is."""
        self._secrets.pop(self._ids.setdefault(key, f"memory:{key}"), None)

    def _demand_enabled(self, key_id: str) -> None:
        if key_id in self._disabled:
            raise KeyUnavailable(key_id, "it is disabled.")


def _spelled(context: Mapping[str, str]) -> bytes:
    return json.dumps(dict(context), sort_keys=True).encode()
