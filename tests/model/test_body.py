"""A body is kept packed where that is smaller, in a blob where it is large, and read back byte for byte."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from millrace.model.body import INLINE_LIMIT, PACK_FROM, place_body, read_body, same_body
from millrace.model.errors import BodyLost
from millrace.stores.memory.queue import MemoryBlobs

NOISE = random.Random(1).randbytes(INLINE_LIMIT + 1)


@pytest.mark.parametrize(
    ("data", "packing", "blob"),
    [
        (b"", "", ""),
        (b"a" * (PACK_FROM - 1), "", ""),
        (b"a" * PACK_FROM, "zlib", ""),
        (NOISE[:INLINE_LIMIT], "", ""),
        (NOISE, "", "b"),
        (b"a" * 1_000_000, "zlib", ""),
    ],
)
def test_a_body_comes_back_as_it_was(data: bytes, packing: str, blob: str) -> None:
    blobs = MemoryBlobs()
    body = place_body(data, blobs, "b")
    assert (body.packing, body.blob, body.size) == (packing, blob, len(data))
    assert read_body(body, blobs) == data


def test_other_bytes_in_a_blobs_place_are_refused() -> None:
    blobs = MemoryBlobs()
    body = place_body(NOISE, blobs, "b")
    blobs.put("b", NOISE[:-1] + b"x")
    with pytest.raises(BodyLost):
        read_body(body, blobs)


def test_no_more_is_unpacked_than_was_accepted() -> None:
    body = place_body(b"a" * 100_000, MemoryBlobs(), "b")
    with pytest.raises(BodyLost):
        read_body(replace(body, size=10), MemoryBlobs())


@pytest.mark.parametrize("data", [b"", b"a" * PACK_FROM, NOISE], ids=["plain", "packed", "blob"])
def test_a_body_is_told_from_another_without_reading_a_blob(data: bytes) -> None:
    stored = place_body(data, MemoryBlobs(), "b")
    nowhere = MemoryBlobs()
    assert same_body(stored, data, nowhere)
    assert not same_body(stored, data + b"!", nowhere)
    assert not data or not same_body(stored, b"!" + data[1:], nowhere)
