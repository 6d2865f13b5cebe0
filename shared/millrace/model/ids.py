"""Names that the queue makes up: message ids, orders, nonces, tokens."""

from __future__ import annotations

import threading
from binascii import b2a_base64
from functools import lru_cache
from hashlib import sha256
from itertools import product
from struct import Struct

from millrace.model.clock import Clock, Entropy

#: Two digits of base 32 (RFC 4648, in small letters) for every ten bits: the standard library's own way is pure
#: Python too, and five times slower. Every message has such an id.
_PAIRS = tuple(map("".join, product("abcdefghijklmnopqrstuvwxyz234567", repeat=2)))
_FORTIES = Struct(">IBIBIBIB12x").unpack
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def keyed_message_id(tenant: str, queue: str, idempotency_key: str) -> str:
    """The id that every message of this idempotency key has, so that a conditional put is the dedupe.

    160 bits of SHA-256 over length-prefixed parts: no two (tenant, queue, key) triples run into each other.
    """
    key = idempotency_key.encode()
    digest = sha256(_owner(tenant, queue) + len(key).to_bytes(4, "big") + key).digest()
    # 160 bits as four times 40 bits, each as four pairs of digits.
    a, low_a, b, low_b, c, low_c, d, low_d = _FORTIES(digest)
    a, b, c, d = a << 8 | low_a, b << 8 | low_b, c << 8 | low_c, d << 8 | low_d
    two = _PAIRS
    return (
        f"{two[a >> 30]}{two[a >> 20 & 1023]}{two[a >> 10 & 1023]}{two[a & 1023]}"
        f"{two[b >> 30]}{two[b >> 20 & 1023]}{two[b >> 10 & 1023]}{two[b & 1023]}"
        f"{two[c >> 30]}{two[c >> 20 & 1023]}{two[c >> 10 & 1023]}{two[c & 1023]}"
        f"{two[d >> 30]}{two[d >> 20 & 1023]}{two[d >> 10 & 1023]}{two[d & 1023]}"
    )


@lru_cache(maxsize=1024)
def _owner(tenant: str, queue: str) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in (tenant.encode(), queue.encode()))


def random_token(entropy: Entropy) -> str:
    """A fresh nonce or claim token: 128 bits, never derived from any input."""
    return b2a_base64(entropy(16), newline=False)[:22].translate(_URL_SAFE).decode()


_62_BITS = (1 << 62) - 1


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
        return self.take(1)[0]

    def take(self, number: int) -> list[str]:
        """So many names, in their order."""
        places = []
        with self._lock:
            millis, count = self._last
            now = self._clock()
            for _ in range(number):
                if now > millis:
                    millis, count = now, 0
                else:
                    count += 1
                    if count > 0xFFF:
                        millis, count = millis + 1, 0
                places.append((millis, count))
            self._last = (millis, count)
        tails = Struct(f">{number}Q").unpack(self._entropy(8 * number))
        return [
            f"{millis:012x}7{count:03x}{tail & _62_BITS | 1 << 63:016x}"
            for (millis, count), tail in zip(places, tails, strict=True)
        ]
