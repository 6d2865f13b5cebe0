"""Declared types, resolved: every mistake reported with what to write, and a type in its place."""

from __future__ import annotations

import pytest

from millrace.definitions.language.message_types import resolve_record
from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import Code, Diagnostics, Span
from millrace.definitions.language.syntax import Block, TypeBlock
from millrace.definitions.message_type import INT, JSON, STRING, EnumType, ListType, MapType, RecordType, Type


def resolved(fields: str) -> tuple[RecordType, list[tuple[Code, str]]]:
    complaints: list[tuple[Code, str]] = []

    def complain(_span: Span, code: Code, message: str, _hint: str) -> None:
        complaints.append((code, message))

    parsed = parse(decode("t", f"app A {{ message_type {{ {fields} }} }}".encode(), Diagnostics()), Diagnostics())
    (app,) = parsed.file.blocks
    assert isinstance(app, Block)
    (types,) = app.members
    assert isinstance(types, TypeBlock)
    return resolve_record(types.fields, complain, top=True), complaints


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("string", STRING),
        ("list<int>", ListType(INT)),
        ("map<string, json>", MapType(STRING, JSON)),
        ('enum("a", "b")', EnumType(("a", "b"))),
    ],
)
def test_a_type_is_what_it_says(written: str, type_: Type) -> None:
    record, complaints = resolved(f"f?: {written}")
    assert complaints == []
    assert (record.fields["f"].type, record.fields["f"].optional) == (type_, True)


@pytest.mark.parametrize(
    ("fields", "code", "instead"),
    [
        ("f: strnig", Code.UNKNOWN, JSON),
        ("f: string<int>", Code.TYPE, STRING),
        ("f: list<int, int>", Code.TYPE, ListType(JSON)),
        ("f: map<int>", Code.TYPE, MapType(STRING, JSON)),
        ("f: map<float, int>", Code.TYPE, MapType(STRING, INT)),
        ('f: enum("a", "a")', Code.DUPLICATE, EnumType(("a",))),
        ("f: int  f: string", Code.DUPLICATE, STRING),
    ],
)
def test_a_mistake_is_reported_once_and_a_type_stands_in(fields: str, code: Code, instead: Type) -> None:
    record, complaints = resolved(fields)
    assert [found for found, _ in complaints] == [code]
    assert record.fields["f"].type == instead


def test_a_word_of_cel_is_no_name_of_a_field() -> None:
    _, ((code, message),) = resolved("for: string")
    assert (code, message) == (Code.UNKNOWN, "CEL keeps the word `for` for itself")
