"""Literals have the values that CEL gives them."""

from __future__ import annotations

import pytest

from millrace.definitions.language.literals import read_bytes, read_int, read_string
from millrace.definitions.spelling import INT_MAX


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ('"a"', "a"),
        (r'"\n\t\\\""', '\n\t\\"'),
        (r'"\x41\u00e4\U0001F642\101"', "Aä🙂A"),
        (r"r'\d+'", r"\d+"),
        ("'it'", "it"),
    ],
)
def test_a_string_is_read_with_its_escapes(token: str, value: str) -> None:
    assert read_string(token) == value


@pytest.mark.parametrize(("token", "says"), [(r'"\d"', r"\\d"), (r'"\ud800"', "no character"), (r'"\UFFFFFFFF"', "no")])
def test_an_escape_that_cel_does_not_know_is_refused(token: str, says: str) -> None:
    with pytest.raises(ValueError, match="is no") as refused:
        read_string(token)
    assert says in str(refused.value)


def test_bytes_have_escapes_of_bytes_and_text_in_utf8() -> None:
    assert read_bytes(r'b"ä\xff\377\u00e4"') == "ä".encode() + b"\xff\xff" + "ä".encode()
    assert read_bytes(r'br"\x41"') == rb"\x41"


def test_an_int_has_64_bits() -> None:
    assert [read_int(text) for text in ("0", "12", "0x1F")] == [0, 12, 31]
    assert read_int(str(INT_MAX + 1)) == INT_MAX + 1, "its sign comes before it"
    for text in (str(INT_MAX + 2), "9" * 5_000, "5u"):
        with pytest.raises(ValueError, match=r"at most|unsigned"):
            read_int(text)
