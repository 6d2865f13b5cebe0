"""Columns of CSV and Parquet, brought to the declared types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.admission.columns import typed_columns
from millrace.definitions.message_type import read_message_type


def typed(kind: Any, cell: str) -> Any:
    """What a cell, written as JSON, becomes in a field of a type."""
    body = typed_columns(read_message_type({"record": {"field": kind}}), b'{"field":%s}' % cell.encode())
    return json.loads(body)["field"]


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("int", '"4388"', 4388),
        ("int", '" -7 "', -7),
        ("int", "4388.0", 4388),
        ("float", '"1.5"', 1.5),
        ("float", '"3"', 3.0),
        ("float", "3", 3),
        ("bool", '"true"', True),
        ("bool", '" FALSE"', False),
        ("string", "4388", "4388"),
        ("string", "true", "true"),
        ("string", "12345678901234567890.10", "12345678901234567890.10"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"list": "int"}, '"[\\"1\\", 2]"', [1, 2]),
        ({"list": "int"}, '["1", 2]', [1, 2]),
        ({"map": ["string", "bool"]}, '{"a": "true"}', {"a": True}),
        ({"record": {"n": "int"}}, '{"n": "1", "more": "1"}', {"n": 1, "more": "1"}),
        ({"record": {"n": "int"}}, '"{\\"n\\": \\"1\\"}"', {"n": 1}),
        ("json", '"4388"', "4388"),
    ],
)
def test_a_cell_that_spells_its_type_becomes_it(kind: Any, cell: str, value: Any) -> None:
    found = typed(kind, cell)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("int", '"much"'),
        ("int", '"1_000"'),
        ("int", '"0x1f"'),
        ("int", '"' + "9" * 30 + '"'),
        ("int", "1.5"),
        ("int", "true"),
        ("int", "null"),
        ("float", '"nan"'),
        ("float", '"1e999"'),
        ("float", '"1_0"'),
        ("bool", '"yes"'),
        ("bool", "1"),
        ("string", "null"),
        ("time", '"yesterday"'),
        ({"list": "int"}, '"no json"'),
        ({"list": "int"}, '"\\"text\\""'),
    ],
)
def test_any_other_cell_stays_for_the_check_to_refuse(kind: Any, cell: str) -> None:
    assert typed(kind, cell) == json.loads(cell)


def test_a_field_that_the_type_does_not_know_stays() -> None:
    kind = read_message_type({"record": {}})
    assert json.loads(typed_columns(kind, b'{"other": "1", "much": 1.50}')) == {"other": "1", "much": 1.5}


@pytest.mark.parametrize("body", [b"no json", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_json_stays_for_the_check_to_refuse(body: bytes) -> None:
    assert typed_columns(read_message_type({"record": {}}), body) == body
