"""How a body is written down: packed when that is smaller, and in a blob when even packed it is too large."""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import Protocol

from millrace.model.message import Body

#: Above this a body, packed, goes to a blob: a message's write units stay few, and an item stays below 400 KB.
INLINE_LIMIT = 32 * 1024
#: Below this packing saves less than a write unit could notice.
PACK_FROM = 512
#: zlib's fastest: on provider payloads it leaves about a tenth more than its best, in a fifth of the time.
PACK_LEVEL = 1


class Blobs(Protocol):
    """Where bodies too large for the table are kept."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Raises BodyLost where there is none, StoreUnavailable where nobody can tell."""
        ...

    def delete(self, key: str) -> None:
        """There is none afterwards. Raises StoreUnavailable where nobody can tell."""
        ...


def pack(data: bytes) -> Body:
    """The body as it would be stored in the table, whatever its size."""
    if len(data) >= PACK_FROM:
        smaller = zlib.compress(data, PACK_LEVEL)
        if len(smaller) < len(data):
            return Body(smaller, "zlib", size=len(data))
    return Body(data, size=len(data))


def unpack(stored: bytes, body: Body) -> bytes | None:
    """The bytes as received; None where `stored` does not hold them. Never unpacks more than was accepted."""
    data = _inflated(stored, body.size) if body.packing == "zlib" else stored
    whole = len(data) == body.size and (not body.digest or digest(data) == body.digest)
    return data if whole else None


def _inflated(packed: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error:
        return b""


def digest(data: bytes) -> bytes:
    """Tells bodies outside the table apart, and shows that one is whole."""
    return sha256(data).digest()[:16]


def blob_name(stored: bytes) -> str:
    """A blob is named by exactly what is in it: writing it again changes nothing for anybody who refers to it."""
    return sha256(stored).hexdigest()[:32]
