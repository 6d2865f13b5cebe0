"""What a request may hold: each kind of field reads a JSON value and describes itself as JSON Schema.

Reading and describing come from the same declaration, so the OpenAPI document cannot promise what is not checked.
Every refusal is an `InvalidField` that names the field by its path.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from millrace.model.errors import InvalidField

Schema = dict[str, Any]
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Kind(Protocol):
    """A kind of value: how it is read, how it is described."""

    def read(self, path: str, value: Any) -> Any: ...

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string, by the length of its UTF-8 bytes and, where given, a pattern or a list of words."""

    most: int = 256
    min_: int = 0
    pattern: str = ""
    words: tuple[str, ...] = ()
    meaning: str = ""
    name: str = ""  #: of its schema in the OpenAPI document, where several routes share it

    def read(self, path: str, value: Any) -> str:
        if not isinstance(value, str) or not self._fits(value):
            raise InvalidField(path, f"{_shown(value)} does not fit", self._allowed())
        return value

    def _fits(self, value: str) -> bool:
        if self.words:
            return value in self.words
        size = len(value.encode("utf-8", "surrogatepass"))
        sound = not any("\ud800" <= character <= "\udfff" for character in value)
        return sound and self.min_ <= size <= self.most and bool(re.fullmatch(self.pattern or r"(?s:.*)", value))

    def _allowed(self) -> str:
        if self.words:
            return "one of " + ", ".join(self.words)
        return f"{self.min_} to {self.most} bytes of text" + (f" like {self.pattern}" if self.pattern else "")

    def schema(self) -> Schema:
        if self.words:
            return _described({"type": "string", "enum": list(self.words), **_title(self.name)}, self.meaning)
        described: Schema = {"type": "string", "maxLength": self.most}
        if self.min_:
            described["minLength"] = self.min_
        if self.pattern:
            described["pattern"] = f"^{self.pattern}$"
        return _described({**described, **_title(self.name)}, self.meaning)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within its bounds; text serves as well where the value comes from a URL."""

    min_: int
    most: int
    meaning: str = ""

    def read(self, path: str, value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value, re.ASCII):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not self.min_ <= value <= self.most:
            raise InvalidField(path, f"{_shown(value)} is out of range", f"{self.min_} to {self.most}")
        return value

    def schema(self) -> Schema:
        return _described({"type": "integer", "minimum": self.min_, "maximum": self.most}, self.meaning)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    meaning: str = ""

    def read(self, path: str, value: Any) -> bool:
        if value in ("true", "false"):
            return bool(value == "true")
        if not isinstance(value, bool):
            raise InvalidField(path, f"{_shown(value)} is neither", "true or false")
        return value

    def schema(self) -> Schema:
        return _described({"type": "boolean"}, self.meaning)


@dataclass(frozen=True, slots=True)
class Time:
    """An instant, RFC 3339 with its offset; read as milliseconds since 1970."""

    meaning: str = ""

    def read(self, path: str, value: Any) -> int:
        if not isinstance(value, str) or not _RFC3339.fullmatch(value):
            raise InvalidField(path, f"{_shown(value)} is not a time", "RFC 3339, such as 2030-01-31T09:00:00Z")
        try:
            return int(datetime.fromisoformat(value.upper()).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise InvalidField(path, f"{_shown(value)} does not exist", "a time of the calendar") from None

    def schema(self) -> Schema:
        return _described({"type": "string", "format": "date-time"}, self.meaning)


@dataclass(frozen=True, slots=True)
class Base64:
    """Bytes as base64."""

    meaning: str = ""

    def read(self, path: str, value: Any) -> bytes:
        try:
            return base64.b64decode(value, validate=True) if isinstance(value, str) else _refuse()
        except (binascii.Error, ValueError):
            raise InvalidField(path, f"{_shown(value)} is not base64", "base64 with its padding") from None

    def schema(self) -> Schema:
        return _described({"type": "string", "contentEncoding": "base64"}, self.meaning)


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value."""

    meaning: str = ""

    def read(self, path: str, value: Any) -> Any:  # noqa: ARG002 (every kind is asked the same way)
        return value

    def schema(self) -> Schema:
        return _described({}, self.meaning)


@dataclass(frozen=True, slots=True)
class Either:
    """The first kind that a value fits."""

    kinds: tuple[Kind, ...]
    meaning: str = ""

    def read(self, path: str, value: Any) -> Any:
        refusals = []
        for kind in self.kinds:
            try:
                return kind.read(path, value)
            except InvalidField as refusal:
                refusals.append(refusal.allowed)
        raise InvalidField(path, f"{_shown(value)} does not fit", ", or ".join(refusals))

    def schema(self) -> Schema:
        return _described({"anyOf": [kind.schema() for kind in self.kinds]}, self.meaning)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind."""

    item: Kind
    most: int
    min_: int = 0
    meaning: str = ""

    def read(self, path: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not self.min_ <= len(value) <= self.most:
            raise InvalidField(path, f"{_shown(value)} does not fit", f"a list of {self.min_} to {self.most}")
        return tuple(self.item.read(f"{path}[{number}]", item) for number, item in enumerate(value))

    def schema(self) -> Schema:
        described: Schema = {"type": "array", "items": self.item.schema(), "maxItems": self.most}
        if self.min_:
            described["minItems"] = self.min_
        return _described(described, self.meaning)


@dataclass(frozen=True, slots=True)
class MapOf:
    """Names to values of one kind."""

    item: Kind
    most: int
    meaning: str = ""
    name: Text = Text(256)

    def read(self, path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > self.most:
            raise InvalidField(path, f"{_shown(value)} does not fit", f"an object of up to {self.most} members")
        return {self.name.read(path, name): self.item.read(f"{path}.{name}"[:80], v) for name, v in value.items()}

    def schema(self) -> Schema:
        described = {"type": "object", "additionalProperties": self.item.schema(), "maxProperties": self.most}
        return _described(described, self.meaning)


@dataclass(frozen=True, slots=True)
class Later:
    """A kind that the handler reads itself, so that one bad line of a batch does not fail the others."""

    kind: Kind

    def read(self, path: str, value: Any) -> Any:  # noqa: ARG002 (every kind is asked the same way)
        return value

    def schema(self) -> Schema:
        return self.kind.schema()


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known members; an unknown one is refused, so that a misspelt option is never ignored."""

    members: Mapping[str, Kind]
    required: tuple[str, ...] = ()
    #: Groups of which at most one member may be given.
    exclusive: tuple[tuple[str, ...], ...] = field(default=())
    meaning: str = ""
    name: str = ""  #: of its schema in the OpenAPI document
    example: Mapping[str, Any] | None = None

    def read(self, path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidField(path or "request", f"{_shown(value)} is not an object", "a JSON object")
        prefix = f"{path}." if path else ""
        for name in value:
            if name not in self.members:
                raise InvalidField(f"{prefix}{name}"[:80], "is unknown here", ", ".join(self.members))
        for name in self.required:
            if name not in value:
                raise InvalidField(prefix + name, "is missing", "a value")
        for group in self.exclusive:
            given = [name for name in group if name in value]
            if len(given) > 1:
                raise InvalidField(prefix + given[1], f"stands beside {given[0]}", "only one of " + ", ".join(group))
        return {name: self.members[name].read(prefix + name, item) for name, item in value.items()}

    def schema(self) -> Schema:
        described: Schema = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in self.members.items()},
            "additionalProperties": False,
        }
        if self.required:
            described["required"] = list(self.required)
        if self.exclusive:
            described["not"] = {
                "anyOf": [{"required": list(pair)} for group in self.exclusive for pair in _pairs(group)]
            }
        if self.example is not None:
            described["examples"] = [self.example]
        return _described({**described, **_title(self.name)}, self.meaning)


def rfc3339(millis: int | None) -> str | None:
    """A time as answers show it; None and 0 stand for no time."""
    if not millis:
        return None
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refuse() -> bytes:
    raise ValueError


def _shown(value: Any) -> str:
    return repr(value)[:40] if isinstance(value, str | int | float | bool | None) else type(value).__name__


def _described(schema: Schema, meaning: str) -> Schema:
    return {**schema, "description": meaning} if meaning else schema


def _title(name: str) -> Schema:
    """The name under which the OpenAPI document lists a schema."""
    return {"title": name} if name else {}


def _pairs(group: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(one, other) for number, one in enumerate(group) for other in group[number + 1 :]]
