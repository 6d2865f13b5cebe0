"""Entries under claims, and filters of dead letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.message import (
    Body,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterReason,
    Entry,
    Message,
    Place,
)

ENTRY = Entry(Place("Q#t#q#0", "R#9949#1"), "m", "n", 0, 1_000, 50, "c")


def test_a_claim_is_live_until_its_end_and_lost_from_then_on() -> None:
    held = ENTRY.claimed("token", "w", 100, 50)
    assert (held.version, held.token, held.since, held.until, held.owner) == (1, "token", 100, 150, "w")
    assert [(held.live(now), held.lost(now)) for now in (149, 150)] == [(True, False), (False, True)]


def test_giving_back_keeps_the_version() -> None:
    given_back = ENTRY.claimed("token", "w", 100, 50).unclaimed()
    assert given_back == replace(ENTRY, version=1)
    assert not given_back.lost(9_999)


def dead_letter() -> DeadLetter:
    message = Message("m", "t", "q", "n", ENTRY.place, Body(b"x"), "text/plain", 0, 0, 0, correlation_id="c")
    reason = DeadLetterReason.EXHAUSTED
    return DeadLetter(message, 1_000, reason, "no luggage", "Lost", 1, 1, 50, "", "billing", (), (), 0)


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        (DeadLetterFilter(), True),
        (DeadLetterFilter(reason=DeadLetterReason.EXHAUSTED, project="billing", correlation_id="c"), True),
        (DeadLetterFilter(error_text="LOST: no lug"), True),
        (DeadLetterFilter(error_text="found"), False),
        (DeadLetterFilter(reason=DeadLetterReason.EXPIRED), False),
        (DeadLetterFilter(project=""), False),
        (DeadLetterFilter(correlation_id="d"), False),
    ],
)
def test_a_filter_asks_for_everything_that_it_names(only: DeadLetterFilter, wanted: bool) -> None:
    assert only.matches(dead_letter()) is wanted


def test_dead_letters_lie_in_the_order_in_which_they_failed() -> None:
    assert dead_letter().sk == "0000000001000#m" < replace(dead_letter(), failed_at=10_000).sk
