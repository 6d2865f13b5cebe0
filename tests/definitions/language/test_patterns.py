"""Patterns that would be slow to compile are refused."""

from __future__ import annotations

import pytest

from millrace.definitions.language.patterns import MAX_PATTERN, pattern_problem


@pytest.mark.parametrize("pattern", ["", "^a+$", r"\d{3}-[A-Z]{2,10}", r"\w{10}"])
def test_an_ordinary_pattern_is_taken(pattern: str) -> None:
    assert pattern_problem(pattern, in_body=False) == ""


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("a" * (MAX_PATTERN + 1), "characters"),
        ("(a{100}){100}", "repeats too much"),
        ("a{999999999999}", "repeats too much"),
        (r"\w{11}", "classes"),
        ("(", "RE2"),
        ("(?=a)", "RE2"),
    ],
)
def test_a_pattern_that_costs_too_much_is_refused(pattern: str, says: str) -> None:
    assert says in pattern_problem(pattern, in_body=False)


@pytest.mark.parametrize("pattern", ["a{200}", r"\w"])
def test_in_the_body_of_a_comprehension_a_pattern_must_be_cheap(pattern: str) -> None:
    assert pattern_problem(pattern, in_body=False) == ""
    assert pattern_problem(pattern, in_body=True) != ""
