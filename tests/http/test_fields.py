"""Kinds of fields: what each takes, what it refuses by the path of the field, and that its schema says the same."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from millrace.http.fields import (
    Base64,
    Either,
    Flag,
    Kind,
    ListOf,
    MapOf,
    Record,
    Text,
    Time,
    Whole,
    rfc3339,
)
from millrace.model.errors import InvalidField

NAMED = Record({"a": Text(3), "b": Whole(0, 9), "c": Flag()}, required=("a",), exclusive=(("b", "c"),))
TAKEN: list[tuple[Kind, Any, Any]] = [
    (Text(3), "abc", "abc"),
    (Text(words=("x", "y")), "y", "y"),
    (Text(9, 1, "[a-z]+"), "abc", "abc"),
    (Whole(1, 5), 5, 5),
    (Flag(), True, True),
    (Time(), "1970-01-01T00:00:01Z", 1000),
    (Base64(), "/w==", b"\xff"),
    (Either((Text(words=("low",)), Whole(0, 9))), 7, 7),
    (ListOf(Whole(0, 9), 2), [1, 2], (1, 2)),
    (MapOf(Text(3), 2), {"k": "v"}, {"k": "v"}),
    (NAMED, {"a": "x", "b": 1}, {"a": "x", "b": 1}),
]
REFUSED: list[tuple[Kind, Any]] = [
    (Text(3), "abcd"),
    (Text(3), 7),
    (Text(words=("x", "y")), "z"),
    (Text(9, 1, "[a-z]+"), "ABC"),
    (Whole(1, 5), 6),
    (Whole(1, 5), True),
    (Whole(1, 5), 1.5),
    (Flag(), 1),
    (Either((Text(words=("low",)), Whole(0, 9))), "high"),
    (ListOf(Whole(0, 9), 2), [1, 2, 3]),
    (ListOf(Whole(0, 9), 2, 1), []),
    (MapOf(Text(3), 1), {"a": "1", "b": "2"}),
    (NAMED, {"b": 1}),
    (NAMED, {"a": "x", "d": 1}),
    (NAMED, {"a": "x", "b": 1, "c": True}),
    (NAMED, []),
]


@pytest.mark.parametrize(("kind", "value", "read"), TAKEN, ids=str)
def test_what_a_kind_takes_its_schema_takes(kind: Kind, value: Any, read: Any) -> None:
    assert kind.read("field", value) == read
    jsonschema.validate(value, kind.schema())


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=str)
def test_what_a_kind_refuses_its_schema_refuses(kind: Kind, value: Any) -> None:
    with pytest.raises(InvalidField) as refused:
        kind.read("field", value)
    assert refused.value.field.startswith("field")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, kind.schema())


@pytest.mark.parametrize("value", ["soon", "2026-02-30T00:00:00Z", "2026-01-31 09:00:00", 7])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidField):
        Time().read("at", value)


def test_a_refusal_names_the_path_of_the_field() -> None:
    nested = Record({"items": ListOf(NAMED, 5)})
    with pytest.raises(InvalidField) as refused:
        nested.read("", {"items": [{"a": "x"}, {"a": "long"}]})
    assert refused.value.field == "items[1].a"


def test_numbers_and_flags_of_a_url_come_as_text() -> None:
    assert (Whole(0, 99).read("n", "42"), Flag().read("f", "true"), Whole(0, 99).read("n", 4.0)) == (42, True, 4)


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    assert (rfc3339(1_500), rfc3339(0), rfc3339(None)) == ("1970-01-01T00:00:01.500Z", None, None)
