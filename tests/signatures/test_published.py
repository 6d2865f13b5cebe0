"""Published keys are kept for a while, looked for seldom, and never taken for granted."""

from __future__ import annotations

import pytest

from millrace.signatures import RefusalReason, SignatureInvalid
from millrace.signatures.errors import KeysUnavailable
from millrace.signatures.published import MOST_KEPT, KeyAddress, PublishedKeys
from tests.signatures.issuers import Makers

MINUTE = 60_000
PLACE = KeyAddress("https://keys.example/set")


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def makers() -> Makers:
    made = Makers()
    made.held = {PLACE.url: b"first"}
    return made


@pytest.fixture
def keys(makers: Makers, clock: Clock) -> PublishedKeys:
    return PublishedKeys(makers, clock)


def found(keys: PublishedKeys, address: KeyAddress = PLACE) -> str:
    """What is there, or why it is not told."""
    try:
        return keys.get(address, bytes.decode)
    except KeysUnavailable:
        return "unavailable"
    except SignatureInvalid as refused:
        return refused.reason


def test_a_document_is_fetched_once_in_an_hour(keys: PublishedKeys, makers: Makers, clock: Clock) -> None:
    assert [found(keys) for _ in range(3)] == ["first"] * 3
    makers.held[PLACE.url] = b"second"
    clock.now = 60 * MINUTE - 1
    assert (found(keys), len(makers.asked)) == ("first", 1)
    clock.now += 1
    assert (found(keys), len(makers.asked)) == ("second", 2)


def test_what_is_missing_in_it_is_looked_for_once_a_minute(keys: PublishedKeys, makers: Makers, clock: Clock) -> None:
    found(keys)
    assert not keys.refresh(PLACE, bytes.decode)
    clock.now = MINUTE
    assert keys.refresh(PLACE, bytes.decode)
    assert [keys.refresh(PLACE, bytes.decode) for _ in range(1_000)] == [False] * 1_000
    assert len(makers.asked) == 2


def test_no_answer_is_our_fault_and_asked_for_once_a_minute(keys: PublishedKeys, makers: Makers, clock: Clock) -> None:
    makers.down = True
    assert [found(keys) for _ in range(100)] == ["unavailable"] * 100
    assert len(makers.asked) == 1
    clock.now, makers.down = MINUTE, False
    assert found(keys) == "first"


def test_an_aged_copy_serves_for_six_hours_without_an_answer(keys: PublishedKeys, makers: Makers, clock: Clock) -> None:
    found(keys)
    makers.down = True
    clock.now = 5 * 60 * MINUTE
    assert found(keys) == "first"
    with pytest.raises(KeysUnavailable):  # it may hold a newer key by now
        keys.refresh(PLACE, bytes.decode)
    clock.now = 6 * 60 * MINUTE
    assert found(keys) == "unavailable"


def test_a_document_that_cannot_be_read_is_no_answer(keys: PublishedKeys, makers: Makers, clock: Clock) -> None:
    makers.held[PLACE.url] = b"\xff"
    assert found(keys) == "unavailable"
    clock.now, makers.held[PLACE.url] = MINUTE, b"first"
    assert found(keys) == "first"
    clock.now, makers.held[PLACE.url] = 2 * 60 * MINUTE, b"\xff"
    assert found(keys) == "first"


def test_made_up_addresses_cost_ten_questions_a_minute_and_push_nothing_out(
    keys: PublishedKeys, makers: Makers, clock: Clock
) -> None:
    found(keys)
    asked: list[str] = []
    for minute in range(1, 31):
        clock.now = minute * MINUTE
        asked += [found(keys, KeyAddress(f"https://keys.example/{minute}-{number}")) for number in range(50)]
    assert len(makers.asked) == 1 + 30 * 10
    assert asked.count(RefusalReason.MISMATCH) == 300
    assert asked.count("unavailable") == 30 * 40, "what was not looked for may exist"
    assert len(keys._kept) == MOST_KEPT
    assert (found(keys), len(makers.asked)) == ("first", 301)
    assert found(keys, KeyAddress("https://another.example/set")) == RefusalReason.MISMATCH, "hosts have shares"


def test_an_address_shows_no_credentials() -> None:
    assert "hunter2" not in repr(KeyAddress("https://keys.example/set", b'{"secret": "hunter2"}'))
