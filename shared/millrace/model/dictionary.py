"""A dictionary of a queue: what its bodies have in common, against which they are packed.

zlib finds repetitions within a body and, given a dictionary, repetitions of the dictionary too: a body of 6 KB whose
keys and habits are in it leaves a few hundred bytes. A dictionary never changes: its name is the hash of its content.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from millrace.model.clock import DAY
from millrace.model.values import dataclass

#: zlib looks back this far, less what it needs to look ahead.
MAX_CONTENT = 32 * 1024 - 262
#: Against a dictionary zlib's fastest finds half of what its usual level does.
PACK_LEVEL = 6
#: A sender packs with a dictionary for so long after its last review.
USE_MS = 28 * DAY
#: Whatever was packed with a dictionary is gone so long after: a message's longest retention (a year) and a week, its
#: dead letter's longest (a year), and two months for clocks, sweeps and deletions that are late.
LONGEST_LIFE_SECONDS = (2 * 365 + 7 + 60) * 86_400


@dataclass(frozen=True, slots=True)
class StoredDictionary:
    """A dictionary as a store keeps it."""

    name: str
    data: bytes
    until: int  #: no sender packs with it after this; it is kept for `LONGEST_LIFE_SECONDS` more

    @property
    def ttl(self) -> int:
        """When it may be forgotten, in seconds: nothing refers to it any more."""
        return self.until // 1000 + LONGEST_LIFE_SECONDS


class Dictionary:
    """A dictionary at work. Safe to share between threads."""

    __slots__ = ("_content", "_packer", "name")

    def __init__(self, content: bytes) -> None:
        self.name = dictionary_name(content)
        self._content = content
        self._packer: Any = None  #: that has read the dictionary; made by the first who packs

    def pack(self, data: bytes) -> bytes:
        # A copy of a packer that has read the dictionary costs a third of reading it again.
        if self._packer is None:
            self._packer = zlib.compressobj(PACK_LEVEL, zdict=self._content)
        packer = self._packer.copy()
        packed: bytes = packer.compress(data) + packer.flush()
        return packed

    def unpack(self, packed: bytes, size: int) -> bytes:
        """At most a byte more than `size`. Raises zlib.error for what was not packed with this dictionary."""
        return zlib.decompressobj(zdict=self._content).decompress(packed, size + 1)

    def stored(self, until: int) -> StoredDictionary:
        return StoredDictionary(self.name, zlib.compress(self._content, 9), until)


def dictionary_of(stored: StoredDictionary) -> Dictionary | None:
    """The dictionary; None where the data is not what its name says."""
    try:
        content = zlib.decompressobj().decompress(stored.data, MAX_CONTENT + 1)
    except zlib.error:
        return None
    return Dictionary(content) if dictionary_name(content) == stored.name else None


def dictionary_name(content: bytes) -> str:
    """96 bits in 16 characters: it is part of every message."""
    return urlsafe_b64encode(sha256(content).digest()[:12]).decode("ascii")
