"""Names that the queue makes up: message ids, orders, nonces, tokens."""

from __future__ import annotations

import threading
from base64 import b32encode, urlsafe_b64encode
from hashlib import sha256

from millrace.model.clock import Clock, Entropy


def keyed_message_id(tenant: str, queue: str, idempotency_key: str) -> str:
    """The id that every message of this idempotency key has, so that a conditional put is the dedupe.

    160 bits of SHA-256 over length-prefixed parts: no two (tenant, queue, key) triples run into each other.
    """
    parts = b"".join(
        len(part).to_bytes(4, "big") + part for part in (tenant.encode(), queue.encode(), idempotency_key.encode())
    )
    return b32encode(sha256(parts).digest()[:20]).decode().lower()


def random_token(entropy: Entropy) -> str:
    """A fresh nonce or claim token: 128 bits, never derived from any input."""
    return urlsafe_b64encode(entropy(16)).rstrip(b"=").decode()


class Orders:
    """Time-ordered unique names (UUIDv7 without its dashes), strictly growing within a process.

    The 12 bits after the version count up within a millisecond, so that a batch keeps its own order.
    """

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._last = (0, 0)
        self._lock = threading.Lock()

    def next(self) -> str:
        with self._lock:
            millis, count = self._last
            now = self._clock()
            if now > millis:
                millis, count = now, 0
            else:
                count += 1
                if count > 0xFFF:
                    millis, count = millis + 1, 0
            self._last = (millis, count)
        tail = int.from_bytes(self._entropy(8), "big") & (1 << 62) - 1 | 1 << 63
        return f"{millis:012x}7{count:03x}{tail:016x}"
