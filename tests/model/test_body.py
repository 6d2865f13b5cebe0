"""A body is packed where that is smaller, and unpacked byte for byte."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from millrace.model.body import PACK_FROM, blob_name, digest, pack, unpack

NOISE = random.Random(1).randbytes(40_000)


@pytest.mark.parametrize(
    ("data", "packing"),
    [
        (b"", ""),
        (b"a" * (PACK_FROM - 1), ""),
        (b"a" * PACK_FROM, "zlib"),
        (NOISE, ""),
        (b"a" * 1_000_000, "zlib"),
    ],
)
def test_a_body_comes_back_as_it_was(data: bytes, packing: str) -> None:
    body = pack(data)
    assert (body.packing, body.size) == (packing, len(data))
    assert unpack(body.data, body) == data


def test_no_more_is_unpacked_than_was_accepted() -> None:
    body = pack(b"a" * 100_000)
    assert unpack(body.data, replace(body, size=10)) is None


def test_other_bytes_of_the_same_size_are_told_by_the_digest() -> None:
    body = replace(pack(NOISE), digest=digest(NOISE))
    assert unpack(NOISE, body) == NOISE
    assert unpack(NOISE[:-1] + b"x", body) is None


def test_a_blob_is_named_by_what_is_in_it() -> None:
    assert blob_name(NOISE) == blob_name(bytes(NOISE))
    assert blob_name(NOISE) != blob_name(NOISE + b"x")
