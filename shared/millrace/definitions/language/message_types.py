"""From a written message type to the type that messages are checked against."""

from __future__ import annotations

from collections.abc import Callable

from millrace.definitions.language.functions import RESERVED
from millrace.definitions.language.source import Code, Span, did_you_mean
from millrace.definitions.language.syntax import TypeExpr, TypeField
from millrace.definitions.message_type import (
    INT,
    JSON,
    SCALAR_NAMES,
    STRING,
    TIME,
    EnumType,
    Field,
    ListType,
    MapType,
    RecordType,
    ScalarType,
    Type,
)

#: What a webhook puts into its queue. `payload` may be given a narrower type.
WEBHOOK_MESSAGE = RecordType(
    {
        "payload": Field(JSON),
        "headers": Field(MapType(STRING, STRING)),
        "source_ip": Field(STRING),
        "received_at": Field(TIME),
    }
)

_TYPE_NAMES = (*SCALAR_NAMES, "list", "map", "enum")

#: Reports: place, kind, message, hint.
Complain = Callable[[Span, Code, str, str], None]


def resolve_record(fields: tuple[TypeField, ...], complain: Complain, *, top: bool = False) -> RecordType:
    """The record of these fields; a wrong field is reported and taken as `json`."""
    resolved: dict[str, Field] = {}
    for field in fields:
        name = field.name
        if name.text in resolved:
            complain(name.span, Code.DUPLICATE, f"the field `{name.text}` is declared twice", "remove one of them")
        elif top and name.text in RESERVED:
            complain(name.span, Code.UNKNOWN, f"CEL keeps the word `{name.text}` for itself", "choose another name")
        resolved[name.text] = Field(_resolve(field.type, complain), field.optional)
    return RecordType(resolved)


def _resolve(written: TypeExpr, complain: Complain) -> Type:
    if written.fields is not None:
        return resolve_record(written.fields, complain)
    name = written.name.text
    if written.values is not None or name == "enum":
        return _resolve_enum(written, complain)
    if name in ("list", "map"):
        return _resolve_container(written, complain)
    if name not in SCALAR_NAMES:
        hint = did_you_mean(name, _TYPE_NAMES)
        complain(written.name.span, Code.UNKNOWN, f"there is no type `{name}`", hint)
        return JSON
    if written.arguments:
        complain(written.span, Code.TYPE, f"`{name}` takes nothing in `<…>`", f"write `{name}`")
    return ScalarType(name)


def _resolve_enum(written: TypeExpr, complain: Complain) -> Type:
    values = [str(value.value) for value in written.values or ()]
    if written.name.text != "enum" or not values:
        complain(written.span, Code.TYPE, "this is not a type", 'write enum("first", "second")')
        return STRING
    if len(set(values)) < len(values):
        complain(written.span, Code.DUPLICATE, "the enum names a value twice", "remove one of them")
    return EnumType(tuple(dict.fromkeys(values)))


def _resolve_container(written: TypeExpr, complain: Complain) -> Type:
    name, count = written.name.text, len(written.arguments)
    arguments = [_resolve(argument, complain) for argument in written.arguments]
    if name == "list":
        if count != 1:
            complain(written.span, Code.TYPE, "a list has one type of item", "write list<string>")
            return ListType(JSON)
        return ListType(arguments[0])
    if count != 2:
        complain(written.span, Code.TYPE, "a map has a type of key and a type of value", "write map<string, json>")
        return MapType(STRING, JSON)
    if arguments[0] not in (STRING, INT) and not isinstance(arguments[0], EnumType):
        span = written.arguments[0].span
        complain(span, Code.TYPE, "a key is a string, an int or an enum", "write map<string, …>")
        return MapType(STRING, arguments[1])
    return MapType(arguments[0], arguments[1])
