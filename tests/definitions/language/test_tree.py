"""The tree says what the text says, with its places, and refuses what no value can hold."""

from __future__ import annotations

import pytest

from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import Diagnostics
from millrace.definitions.language.syntax import Invalid, Literal, Mapping, Property, TypeBlock


def members(text: str) -> tuple[tuple[object, ...], list[str]]:
    report = Diagnostics()
    parsed = parse(decode("t", f"app A {{ {text} }}".encode(), report), report)
    return parsed.file.blocks[0].members, [finding.message for finding in report.findings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-9223372036854775808", -(2**63)),
        ("0x1F", 31),
        ("1.5e3", 1500.0),
        ("'a\\n'", "a\n"),
        ("b'\\x00'", b"\0"),
        ("true", True),
        ("false", False),
        ("null", None),
    ],
)
def test_a_literal_is_its_value(text: str, value: object) -> None:
    (member,), found = members(f"x: {text}")
    assert isinstance(member, Property)
    assert isinstance(member.value, Literal)
    assert (member.value.value, found) == (value, [])


@pytest.mark.parametrize("text", ["9223372036854775808", "1e999", "'\\q'", "b'\\q'"])
def test_a_value_that_nothing_can_hold_is_refused(text: str) -> None:
    (member,), found = members(f"x: {text}")
    assert isinstance(member, Property)
    assert isinstance(member.value, Invalid)
    assert len(found) == 1


def test_expressions_and_types_have_a_bounded_depth() -> None:
    assert members("x: a" + ".b" * 100)[1] != []
    assert members("message_type { f: " + "list<" * 60 + "int" + ">" * 60 + " }")[1] != []


def test_members_are_told_apart() -> None:
    (types, mapping, bare, setting), found = members(
        "message_type { a?: int }  map_to: command A.B { x: a }  map_to: queue Q  shards: 2"
    )
    assert found == []
    assert isinstance(types, TypeBlock)
    assert [(field.name.text, field.optional) for field in types.fields] == [("a", True)]
    assert isinstance(mapping, Mapping)
    assert isinstance(bare, Mapping)
    assert (len(mapping.fields or ()), bare.fields) == (1, None)
    assert isinstance(setting, Property)
