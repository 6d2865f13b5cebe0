"""Errors: one code each, and texts that say what is allowed and show no more than they must."""

from __future__ import annotations

import inspect

import pytest

from millrace.model import errors
from millrace.model.errors import InvalidField, MillraceError, QueueFull, RequestTooLarge, StaleClaim, UnknownQueue

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, MillraceError)]


def test_each_error_has_a_code_of_its_own_and_says_what_it_is() -> None:
    # A request over its limit is a body over its limit, to whoever acts on codes.
    codes = [found.code for found in CLASSES if found is not RequestTooLarge]
    assert len(set(codes)) == len(codes)
    assert all(found.__doc__ for found in CLASSES)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnknownQueue("Jbos", ("Jobs",), "Jobs"), "There is no queue 'Jbos'. Did you mean 'Jobs'? Defined are: Jobs."),
        (InvalidField("max", "0", "1 to 10"), "max: 0. Allowed: 1 to 10."),
        (StaleClaim("m", 1, None), "Claim version 1 on message 'm' is stale: its entry has ended."),
        (StaleClaim("m", 1, 2), "Claim version 1 on message 'm' is stale: the current version is 2."),
        (QueueFull("Jobs", 9), "Queue 'Jobs' holds its 9 unfinished messages: try again in 5 s."),
    ],
)
def test_an_error_says_what_is_wrong(error: MillraceError, text: str) -> None:
    assert str(error) == text


def test_a_long_name_is_cut() -> None:
    assert len(str(UnknownQueue("x" * 10_000))) < 200
