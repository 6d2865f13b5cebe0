"""Ids: the same for one idempotency key, never the same for two, and orders that only grow."""

from __future__ import annotations

import os
from base64 import b32encode, urlsafe_b64encode
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from millrace.model.ids import Orders, keyed_message_id, random_token


def test_an_idempotency_key_has_one_id_in_its_queue() -> None:
    assert keyed_message_id("t", "Q", "k") == keyed_message_id("t", "Q", "k")
    others = {
        keyed_message_id(*parts) for parts in (("t", "Q", "k"), ("tQ", "", "k"), ("t", "Qk", ""), ("", "tQ", "k"))
    }
    assert len(others) == 4


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=40))
def test_an_id_is_base32_of_the_hash_and_a_token_base64_of_its_entropy(tenant: str, queue: str, key: str) -> None:
    parts = [part.encode("utf-8", "replace") for part in (tenant, queue, key)]
    digest = sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()
    expected = b32encode(digest[:20]).decode().lower()
    assert keyed_message_id(*(part.decode() for part in parts)) == expected
    assert random_token(lambda _: digest[:16]) == urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()


def test_a_token_is_128_bits_of_the_entropy_that_was_passed_in() -> None:
    asked: list[int] = []
    assert random_token(lambda count: asked.append(count) or bytes(count)) == "A" * 22  # type: ignore[func-returns-value]
    assert asked == [16]


def test_orders_grow_within_a_millisecond_and_when_the_clock_goes_back() -> None:
    times = iter([5, 5, 4, 6])
    orders = Orders(lambda: next(times), os.urandom)
    made = [orders.next() for _ in range(4)]
    assert made == sorted(made)
    assert len(set(made)) == 4


def test_a_batch_longer_than_the_counter_keeps_its_order() -> None:
    orders = Orders(lambda: 7, os.urandom)
    made = [orders.next() for _ in range(0x1002)] + orders.take(0x1002) + [orders.next()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
