"""A dictionary packs and unpacks to the byte, is named by its content, and outlives whatever was packed with it."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest

from millrace.definitions.language.vocabulary import LIMITS
from millrace.model.body import DICTIONARY_UP_TO, INLINE_LIMIT, pack, unpack
from millrace.model.dictionary import LONGEST_LIFE_SECONDS, MAX_CONTENT, Dictionary, StoredDictionary, dictionary_of
from millrace.model.queue_spec import WEEK_SECONDS

BODY = b"".join(b'{"number":%d,"words":"the same as ever","colour":"%x"},' % (n, n * 7919) for n in range(60))
SHARED = Dictionary(b'"words":"the same as ever","colour":"{"number":')


def test_a_body_comes_back_from_what_is_left_of_it() -> None:
    body = pack(BODY, SHARED)
    assert body.packing == f"zlib:{SHARED.name}"
    assert len(body.data) < len(pack(BODY).data)
    assert unpack(body.data, body, SHARED) == BODY


def test_another_dictionary_or_none_gives_no_body() -> None:
    body, other = pack(BODY, SHARED), Dictionary(b"another")
    assert unpack(body.data, body) is None
    assert unpack(body.data, body, other) is None
    assert unpack(body.data, replace(body, packing=f"zlib:{other.name}"), other) is None
    assert unpack(body.data, replace(body, packing="zlib"), SHARED) is None
    assert unpack(body.data, replace(body, packing="brotli"), SHARED) is None


def test_a_forged_body_is_told_by_its_digest() -> None:
    body = pack(BODY, SHARED)
    forged = BODY[:-3] + b"!!!"
    assert unpack(SHARED.pack(forged), body, SHARED) is None
    assert unpack(SHARED.pack(BODY * 50), body, SHARED) is None


@pytest.mark.parametrize("size", [100, DICTIONARY_UP_TO + 1])
def test_small_and_very_large_bodies_need_no_dictionary(size: int) -> None:
    assert not pack((BODY * 100)[:size], SHARED).dictionary


def test_what_goes_to_a_blob_can_be_read_by_itself() -> None:
    body = random.Random(1).randbytes(INLINE_LIMIT) + bytes(5_000)
    packed = pack(body, SHARED)
    assert len(packed.data) > INLINE_LIMIT
    assert not packed.dictionary


def test_what_is_stored_is_the_dictionary_or_nothing() -> None:
    stored = SHARED.stored(7)
    found = dictionary_of(stored)
    assert found is not None
    assert found.name == SHARED.name == stored.name
    assert dictionary_of(replace(stored, data=zlib.compress(b"other"))) is None
    assert dictionary_of(replace(stored, data=b"no zlib")) is None
    assert dictionary_of(StoredDictionary(SHARED.name, zlib.compress(bytes(10 * MAX_CONTENT)), 7)) is None


def test_it_is_kept_longer_than_any_definition_lets_a_message_or_dead_letter_live() -> None:
    longest = LIMITS["max_age_seconds"][1]
    assert max(longest, LIMITS["window_seconds"][1]) + WEEK_SECONDS + longest < LONGEST_LIFE_SECONDS
    assert SHARED.stored(5_000).ttl == 5 + LONGEST_LIFE_SECONDS
