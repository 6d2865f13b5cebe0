"""Rows of CSV and Parquet as messages: each column brought to the type that the queue declares.

CSV knows only text, and a Parquet file its own types. A value that spells the declared type becomes it ("4388" an int,
4388 a string, "true" a bool); any other stays as it is, and the check of the message says what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from millrace.definitions.message_type import EnumType, ListType, MapType, RecordType, ScalarType, Type
from millrace.model.strict_json import demand_few_values, parse

_WHOLE = re.compile(r" *-?[0-9]{1,19} *")


class _Written(float):
    """A number that keeps how it was written: a decimal that becomes text must not lose a digit on the way."""

    text: str

    def __new__(cls, text: str) -> _Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def typed_columns(message_type: RecordType, body: bytes) -> bytes:
    """A row's columns, as JSON, with every value that can be brought to its declared type; no other changes.

    Raises TooManyValues.
    """
    demand_few_values(body)
    try:
        row = json.loads(body, parse_float=_Written)
    except (ValueError, RecursionError):
        return body
    typed = _typed(message_type, row)
    return json.dumps(typed, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _typed(kind: Type, value: Any) -> Any:
    match kind, value:
        case RecordType(), Mapping():
            fields = kind.fields
            return {name: _typed(fields[name].type, item) if name in fields else item for name, item in value.items()}
        case ListType(), list():
            return [_typed(kind.item, item) for item in value]
        case MapType(), Mapping():
            return {key: _typed(kind.value, item) for key, item in value.items()}
        case RecordType() | ListType() | MapType(), str():
            return _from_text(kind, value)
        case EnumType(), _:
            return _as_text(value)
        case ScalarType(), _:
            return _SCALARS.get(kind.name, _unchanged)(value)
    return value


def _from_text(kind: Type, text: str) -> Any:
    """A list or an object that a cell of text spells as JSON."""
    try:
        found = parse(text.encode())
    except ValueError:
        return text
    return text if isinstance(found, str) else _typed(kind, found)


def _as_text(value: Any) -> Any:
    if isinstance(value, _Written):
        return value.text
    return json.dumps(value) if isinstance(value, int | float) else value


def _as_int(value: Any) -> Any:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return int(value) if isinstance(value, float) and isfinite(value) and value.is_integer() else value


def _as_float(value: Any) -> Any:
    if not isinstance(value, str) or "_" in value:
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if isfinite(number) else value


def _as_bool(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value


def _unchanged(value: Any) -> Any:
    return value


_SCALARS = {"string": _as_text, "int": _as_int, "float": _as_float, "bool": _as_bool}
