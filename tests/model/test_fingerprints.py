"""Errors that differ in ids, numbers and quoted values are one; others are not."""

from __future__ import annotations

import pytest

from millrace.model.fingerprints import READ_CHARACTERS, error_pattern, fingerprint


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        ("no answer within 10 s", "no answer within … s"),
        ("cus_3 is not known to the ledger", "… is not known to the ledger"),
        ("id 0190f5a3-7b1c-7abc-8def-0123456789ab at 0xdeadbeef", "id … at …"),
        ("user 'ann' can't pay \"bob\" `soon`", "user … can't pay …"),
        ("no route to 10.0.0.3:8080", "no route to …"),
        ("lock deadbeefcafe is held", "lock … is held"),
        ("facade decade", "facade decade"),
        ("HTTP 404: order 7", "HTTP 404: order …"),
        ("the target answered 503 after 12 ms", "the target answered 503 after … ms"),
        ("POST https://a.example/v2/orders/17: refused", "POST https://a.example/…/orders/…: refused"),
        ("one\n  two\tthree", "one two three"),
        ("", ""),
    ],
)
def test_details_are_left_out(error: str, pattern: str) -> None:
    assert error_pattern(error) == pattern


def test_equal_errors_have_one_fingerprint_and_others_another() -> None:
    assert fingerprint("KeyError", "order 1 of 'a'") == fingerprint("KeyError", "order 22 of 'b'")
    assert fingerprint("KeyError", "order 1") != fingerprint("ValueError", "order 1")
    assert fingerprint("HttpStatus", "answered 404") != fingerprint("HttpStatus", "answered 503")
    assert len(fingerprint("", "")) == 16


def test_a_long_error_is_read_in_part() -> None:
    start = "x" * READ_CHARACTERS
    assert error_pattern(start + "a") == error_pattern(start + "b")
