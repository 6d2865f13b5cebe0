"""Where a body is kept: in the message, packed when that is smaller, or in a blob when even packed it is too large."""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import Protocol

from millrace.model.errors import BodyLost
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


def place_body(data: bytes, blobs: Blobs, blob_key: str) -> Body:
    """Pack `data`, and write it to `blob_key` first where it is too large for the table."""
    packing, packed = "", data
    if len(data) >= PACK_FROM:
        smaller = zlib.compress(data, PACK_LEVEL)
        if len(smaller) < len(data):
            packing, packed = "zlib", smaller
    if len(packed) <= INLINE_LIMIT:
        return Body(packed, packing, size=len(data))
    blobs.put(blob_key, packed)
    return Body(b"", packing, blob=blob_key, size=len(data), digest=sha256(data).digest()[:16])


def _unpacked(packed: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error:
        return b""


def read_body(body: Body, blobs: Blobs) -> bytes:
    """The bytes exactly as received. Never unpacks more than was accepted, whatever somebody put in their place."""
    packed = blobs.get(body.blob) if body.blob else body.data
    data = _unpacked(packed, body.size) if body.packing == "zlib" else packed
    if len(data) != body.size or (body.digest and sha256(data).digest()[:16] != body.digest):
        raise BodyLost(f"Blob {body.blob!r} does not hold the {body.size} bytes that were accepted.")
    return data


def same_body(stored: Body, data: bytes, blobs: Blobs) -> bool:
    """Whether a stored body is this one; a blob is judged by its size and digest, without reading it."""
    if stored.size != len(data):
        return False
    if stored.blob:
        return stored.digest == sha256(data).digest()[:16]
    return read_body(stored, blobs) == data
