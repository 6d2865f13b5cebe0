"""The one rule for JSON from outside."""

from __future__ import annotations

import pytest

from millrace.model.strict_json import MAX_DEPTH, parse


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "not UTF-8"),
        (b"{", "not JSON at character 1"),
        (b"NaN", "NaN is not JSON"),
        (b"[1e999]", "too large"),
        (b"[" * 65 + b"]" * 65, "64 deep"),
        (b"[" * 100_000, "64 deep"),
    ],
)
def test_what_is_refused_says_why(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(data)


def test_values_are_read_down_to_the_depth_that_is_allowed() -> None:
    assert parse(b'{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_of_a_repeated_name_the_last_counts_unless_names_come_once() -> None:
    twice = b'{"a": 1, "a": 2}'
    assert parse(twice) == {"a": 2}
    with pytest.raises(ValueError, match="a name twice"):
        parse(twice, names_once=True)
    assert parse(b'{"a": {"a": 1}}', names_once=True) == {"a": {"a": 1}}
