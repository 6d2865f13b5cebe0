"""Names that the queue makes up: message ids, orders, nonces, tokens."""

from __future__ import annotations

import threading
from binascii import b2a_base64
from functools import lru_cache
from hashlib import sha256
from itertools import product

from millrace.model.clock import Clock, Entropy

#: Two digits of base 32 (RFC 4648, in small letters) for every ten bits: the standard library's own way is pure
#: Python too, and five times slower. Every message has such an id.
_PAIRS = tuple(map("".join, product("abcdefghijklmnopqrstuvwxyz234567", repeat=2)))
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def keyed_message_id(tenant: str, queue: str, idempotency_key: str) -> str:
    """The id that every message of this idempotency key has, so that a conditional put is the dedupe.

    160 bits of SHA-256 over length-prefixed parts: no two (tenant, queue, key) triples run into each other.
    """
    key = idempotency_key.encode()
    digest = sha256(_owner(tenant, queue) + len(key).to_bytes(4, "big") + key).digest()
    return "".join([_base32(digest[start : start + 5]) for start in (0, 5, 10, 15)])


@lru_cache(maxsize=1024)
def _owner(tenant: str, queue: str) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in (tenant.encode(), queue.encode()))


def _base32(five: bytes) -> str:
    bits = int.from_bytes(five, "big")
    return f"{_PAIRS[bits >> 30]}{_PAIRS[bits >> 20 & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits & 1023]}"


def random_token(entropy: Entropy) -> str:
    """A fresh nonce or claim token: 128 bits, never derived from any input."""
    return b2a_base64(entropy(16), newline=False)[:22].translate(_URL_SAFE).decode()


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
