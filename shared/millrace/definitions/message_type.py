"""Types of messages: what a field may hold, and where a message departs from it.

A message is JSON. Types are read from the compiled definitions (`read_type`) and written back (`written`);
both are exact inverses. Validation walks only what is typed: below `json` nothing is looked at, so its cost and
depth are bounded by the type and the length of typed lists and maps, never by a hostile payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

from millrace.definitions.spelling import INT_MAX, INT_MIN, parse_bytes, parse_duration, parse_time
from millrace.model.errors import InvalidDefinitions
from millrace.model.values import dataclass

#: Problems reported for one message; a list of a million wrong items is not a million sentences.
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """One place where a message is not what its type says."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path or 'message'}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """string, int, float, bool, time, duration, bytes, or json, which holds anything."""

    name: str

    def describe(self) -> str:
        return _SCALARS[self.name][1]

    def problems(self, value: object, path: str) -> Iterator[TypeProblem]:
        if not _SCALARS[self.name][0](value):
            yield TypeProblem(path, self.describe(), describe_value(value))

    def written(self) -> Any:
        return self.name


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of a few strings."""

    values: tuple[str, ...]

    def describe(self) -> str:
        return "one of " + ", ".join(f'"{value}"' for value in self.values)

    def problems(self, value: object, path: str) -> Iterator[TypeProblem]:
        if not isinstance(value, str):
            yield TypeProblem(path, self.describe(), describe_value(value))
        elif value not in self.values:
            yield TypeProblem(path, self.describe(), f'"{value[:40]}"')

    def written(self) -> Any:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class ListType:
    item: Type

    def describe(self) -> str:
        return f"a list of {self.item.describe()}"

    def problems(self, value: object, path: str) -> Iterator[TypeProblem]:
        if not isinstance(value, list):
            yield TypeProblem(path, self.describe(), describe_value(value))
            return
        for index, item in enumerate(value):
            yield from self.item.problems(item, f"{path}[{index}]")

    def written(self) -> Any:
        return {"list": self.item.written()}


@dataclass(frozen=True, slots=True)
class MapType:
    """A JSON object with keys of one type; integer keys are spelt as JSON must, in quotes."""

    key: Type
    value: Type

    def describe(self) -> str:
        return f"a map from {self.key.describe()} to {self.value.describe()}"

    def problems(self, value: object, path: str) -> Iterator[TypeProblem]:
        if not isinstance(value, Mapping):
            yield TypeProblem(path, self.describe(), describe_value(value))
            return
        for key, item in value.items():
            place = f"{path}[{describe_key(key)}]"
            if not self.accepts_key(key):
                yield TypeProblem(place, f"a key that is {self.key.describe()}", describe_value(key))
            yield from self.value.problems(item, place)

    def accepts_key(self, key: object) -> bool:
        if self.key == INT:
            return isinstance(key, str) and len(key) < 21 and key.removeprefix("-").isdecimal()
        return not any(self.key.problems(key, ""))

    def written(self) -> Any:
        return {"map": [self.key.written(), self.value.written()]}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record. An optional one may be absent or null."""

    type: Type
    optional: bool = False


@dataclass(frozen=True, slots=True)
class RecordType:
    """An object with known fields.

    The message itself is closed: a field it does not know is a problem, most often a typing slip. Records inside it
    are open, because a provider adds fields to its payloads whenever it likes.
    """

    fields: Mapping[str, Field]
    closed: bool = False

    def describe(self) -> str:
        return "an object with " + (", ".join(self.fields) or "no fields")

    def validate(self, value: object) -> list[TypeProblem]:
        """Every problem of a message, at most MAX_PROBLEMS; an empty list for a valid one."""
        return list(islice(self.problems(value, ""), MAX_PROBLEMS))

    def problems(self, value: object, path: str) -> Iterator[TypeProblem]:
        if not isinstance(value, Mapping):
            yield TypeProblem(path, self.describe(), describe_value(value))
            return
        for name, field in self.fields.items():
            place = f"{path}.{name}" if path else name
            if value.get(name) is None and field.optional:
                continue
            if name not in value:
                yield TypeProblem(place, field.type.describe(), "nothing")
            else:
                yield from field.type.problems(value[name], place)
        for name in value if self.closed else ():
            if name not in self.fields:
                place = f"{path}.{str(name)[:60]}" if path else str(name)[:60]
                yield TypeProblem(place, f"only {', '.join(self.fields)}", "an unknown field")

    def written(self) -> Any:
        fields = {name: field.type.written() for name, field in self.fields.items()}
        optional = [name for name, field in self.fields.items() if field.optional]
        return {"record": fields, "optional": optional} if optional else {"record": fields}


Type: TypeAlias = ScalarType | EnumType | ListType | MapType | RecordType


def describe_value(value: object) -> str:
    """A value in a word or two; never its content beyond a short scalar, since messages may carry secrets."""
    match value:
        case None:
            return "null"
        case bool():
            return "a bool"
        case int():
            return "an int" if INT_MIN <= value <= INT_MAX else "an int beyond 64 bits"
        case float():
            return "a float"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def describe_key(key: object) -> str:
    return f'"{key[:40]}"' if isinstance(key, str) else repr(key)[:40]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX


def _is_float(value: object) -> bool:
    return isinstance(value, float) or _is_int(value)


def _spells(parse: Callable[[str], object]) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        if not isinstance(value, str):
            return False
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return accepts


_SCALARS: dict[str, tuple[Callable[[object], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a string"),
    "int": (_is_int, "an int"),
    "float": (_is_float, "a float"),
    "bool": (lambda value: isinstance(value, bool), "a bool"),
    "time": (_spells(parse_time), "a time such as 2026-11-16T09:30:00Z"),
    "duration": (_spells(parse_duration), "a duration such as 1h30m"),
    "bytes": (_spells(parse_bytes), "bytes in base64"),
    "json": (lambda _: True, "any JSON"),
}

STRING, INT, FLOAT, BOOL, TIME, DURATION, BYTES, JSON = (ScalarType(name) for name in _SCALARS)
SCALAR_NAMES = tuple(_SCALARS)


def read_type(written: Any) -> Type:
    """The type that compiled definitions describe. Raises InvalidDefinitions for anything else."""
    match written:
        case str() if written in _SCALARS:
            return ScalarType(written)
        case {"enum": [*values]}:
            return EnumType(tuple(str(value) for value in values))
        case {"list": item}:
            return ListType(read_type(item))
        case {"map": [key, value]}:
            return MapType(read_type(key), read_type(value))
        case {"record": dict()}:
            return read_record(written)
    raise InvalidDefinitions(f"{str(written)[:60]} is not a type")


def read_message_type(written: Any) -> RecordType:
    return replace(read_record(written), closed=True)


def read_record(written: Any) -> RecordType:
    match written:
        case {"record": dict() as fields}:
            optional = written.get("optional", ())
            return RecordType({name: Field(read_type(kind), name in optional) for name, kind in fields.items()})
    raise InvalidDefinitions(f"{str(written)[:60]} is not a record")
