"""How a body is written down: packed when that is smaller, and in a blob when even packed it is too large."""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import Protocol

from millrace.model.dictionary import Dictionary
from millrace.model.message import WITH_DICTIONARY, Body

#: Above this a body, packed, goes to a blob: a message's write units stay few, and an item stays below 400 KB.
INLINE_LIMIT = 32 * 1024
#: Below this packing saves less than a write unit could notice.
PACK_FROM = 512
#: zlib's fastest: on provider payloads it leaves about a tenth more than its best, in a fifth of the time.
PACK_LEVEL = 1
#: A larger body is packed without a dictionary: most of it lies too far behind for zlib to see.
DICTIONARY_UP_TO = 128 * 1024


class Blobs(Protocol):
    """Where bodies too large for the table are kept."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Raises BodyLost where there is none, StoreUnavailable where nobody can tell."""
        ...

    def delete(self, key: str) -> None:
        """There is none afterwards. Raises StoreUnavailable where nobody can tell."""
        ...


def pack(data: bytes, dictionary: Dictionary | None = None) -> Body:
    """The body as it would be stored in the table, whatever its size.

    What goes to a blob is packed without a dictionary: a blob can be read by itself.
    """
    if len(data) < PACK_FROM:
        return Body(data, size=len(data))
    if dictionary is not None and len(data) <= DICTIONARY_UP_TO:
        smaller = dictionary.pack(data)
        if len(smaller) < len(data) and len(smaller) <= INLINE_LIMIT:
            return Body(smaller, f"{WITH_DICTIONARY}{dictionary.name}", size=len(data), digest=digest(data))
    smaller = zlib.compress(data, PACK_LEVEL)
    if len(smaller) < len(data):
        return Body(smaller, "zlib", size=len(data))
    return Body(data, size=len(data))


def unpack(stored: bytes, body: Body, dictionary: Dictionary | None = None) -> bytes | None:
    """The bytes as received; None where `stored` does not hold them. Never unpacks more than was accepted."""
    try:
        data = _unpacked(stored, body, dictionary)
    except zlib.error:
        return None
    whole = len(data) == body.size and (not body.digest or digest(data) == body.digest)
    return data if whole else None


def _unpacked(stored: bytes, body: Body, dictionary: Dictionary | None) -> bytes:
    if not body.packing:
        return stored
    if body.packing == "zlib":
        return zlib.decompressobj().decompress(stored, body.size + 1)
    if dictionary is None or dictionary.name != body.dictionary:
        raise zlib.error(f"unknown packing {body.packing!r}")
    return dictionary.unpack(stored, body.size)


def digest(data: bytes) -> bytes:
    """Tells bodies apart that do not lie in their message as they came, and shows that one is whole."""
    return sha256(data).digest()[:16]


def blob_name(stored: bytes) -> str:
    """A blob is named by exactly what is in it: writing it again changes nothing for anybody who refers to it."""
    return sha256(stored).hexdigest()[:32]
