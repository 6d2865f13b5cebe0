"""DynamoDB's expressions, as far as the store writes them: conditions, updates, keys, and batched PartiQL.

Each text is parsed once and kept as a function. A form that is not known here raises: an expression that the model
misreads would make every figure worthless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

Item = dict[str, Any]
Values = Mapping[str, Any]
#: Whether an item (None where there is none) fulfils a condition.
Test = Callable[[Item | None, Values], bool]

_TOKEN = re.compile(r"\s*(?:(:\w+)|(#\w+)|([A-Za-z_][\w]*)|(<=|>=|<>|[=<>(),+-]))")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def plain(value: Any) -> tuple[str, Any]:
    """A value as something that can be compared, with its type: DynamoDB never compares across types."""
    ((kind, raw),) = value.items()
    return kind, Decimal(raw) if kind == "N" else bytes(raw) if kind == "B" else raw


def compare(found: Any, operator: str, wanted: Any) -> bool:
    """A missing attribute fulfils no comparison but `<>`."""
    if found is None:
        return operator == "<>"
    (kind, value), (other_kind, other) = plain(found), plain(wanted)
    if kind != other_kind:
        return operator == "<>"
    return _COMPARE[operator](value, other)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotImplementedError(f"the model does not know this expression: {text!r}")
        found.append(match[0].strip())
        at = match.end()
    return found


class _Parser:
    """Conditions by recursive descent: OR, AND, NOT, comparisons, functions."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._names = names
        self._at = 0

    def parse(self) -> Test:
        found = self._either()
        if self._at != len(self._tokens):
            raise NotImplementedError(f"the model does not know this expression: {self._text!r}")
        return found

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _either(self) -> Test:
        parts = [self._both()]
        while self._peek().upper() == "OR":
            self._next()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda item, values: any(part(item, values) for part in parts)

    def _both(self) -> Test:
        parts = [self._one()]
        while self._peek().upper() == "AND":
            self._next()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda item, values: all(part(item, values) for part in parts)

    def _one(self) -> Test:
        token = self._next()
        if token == "(":
            found = self._either()
            self._expect(")")
            return found
        if token.upper() == "NOT":
            inner = self._one()
            return lambda item, values: not inner(item, values)
        if token in ("attribute_exists", "attribute_not_exists"):
            self._expect("(")
            name = self._name(self._next())
            self._expect(")")
            wanted = token == "attribute_exists"
            return lambda item, values: (item is not None and name in item) is wanted
        if token == "begins_with":
            return self._begins_with()
        return self._comparison(self._name(token))

    def _begins_with(self) -> Test:
        self._expect("(")
        name = self._name(self._next())
        self._expect(",")
        value = self._next()
        self._expect(")")
        return lambda item, values: item is not None and item[name]["S"].startswith(values[value]["S"])

    def _comparison(self, name: str) -> Test:
        operator = self._next()
        if operator.upper() == "BETWEEN":
            low = self._next()
            if self._next().upper() != "AND":
                raise NotImplementedError(self._text)
            high = self._next()
            return lambda item, values: (
                item is not None
                and compare(item.get(name), ">=", values[low])
                and compare(item.get(name), "<=", values[high])
            )
        value = self._next()
        if operator not in _COMPARE or not value.startswith(":"):
            raise NotImplementedError(f"the model does not know this expression: {self._text!r}")
        return lambda item, values: item is not None and compare(item.get(name), operator, values[value])

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise NotImplementedError(f"the model does not know this expression: {self._text!r}")

    def _name(self, token: str) -> str:
        return self._names[token] if token.startswith("#") else token


@lru_cache(maxsize=512)
def _condition(text: str, names: tuple[tuple[str, str], ...]) -> Test:
    return _Parser(text, dict(names)).parse()


def condition(text: str | None, names: Mapping[str, str] | None) -> Test:
    """A ConditionExpression or KeyConditionExpression as a function."""
    if not text:
        return lambda _item, _values: True
    return _condition(text, tuple(sorted((names or {}).items())))


Change = Callable[[Item, Values], None]


@lru_cache(maxsize=512)
def _update(text: str, names: tuple[tuple[str, str], ...]) -> tuple[Change, ...]:
    known = dict(names)
    changes: list[Change] = []
    for clause in re.finditer(r"(SET|ADD|REMOVE|DELETE)\s+(.*?)(?=\s+(?:SET|ADD|REMOVE|DELETE)\s|$)", text, re.DOTALL):
        verb, body = clause[1], clause[2]
        changes += [_part(verb, part.strip(), known, text) for part in body.split(",")]
    if not changes:
        raise NotImplementedError(f"the model does not know this update: {text!r}")
    return tuple(changes)


def _part(verb: str, part: str, names: Mapping[str, str], text: str) -> Change:
    words = part.split()
    name = names[words[0]] if words[0].startswith("#") else words[0]
    match verb, words[1:]:
        case "SET", ["=", value] if value.startswith(":"):
            return lambda item, values: item.__setitem__(name, values[value])
        case "ADD", [value] if value.startswith(":"):
            return lambda item, values: _add(item, name, values[value])
        case "REMOVE", []:
            return lambda item, values: item.pop(name, None)
        case _:
            raise NotImplementedError(f"the model does not know this update: {text!r}")


def _add(item: Item, name: str, value: Any) -> None:
    before = Decimal(item[name]["N"]) if name in item else Decimal(0)
    item[name] = {"N": str(before + Decimal(value["N"]))}


def update(text: str, names: Mapping[str, str] | None) -> tuple[Change, ...]:
    """An UpdateExpression as functions that change an item."""
    return _update(text, tuple(sorted((names or {}).items())))


# -- PartiQL -----------------------------------------------------------------------------------------------------
_INSERT = re.compile(r"""INSERT INTO "([^"]+)" VALUE \{(.*)\}""")
_UPDATE = re.compile(r"""UPDATE "([^"]+)" ((?:SET "[^"]+" = \? ?)+)(?:REMOVE .*?)?WHERE (.*)""")
_DELETE = re.compile(r"""DELETE FROM "([^"]+)" WHERE (.*?)(?: RETURNING ALL OLD \*)?""")
_TERM = re.compile(r"""("[^"]+") (=|<=|>=|<>|<|>) \?""")


class Statement:
    """One PartiQL text: its verb, its table, the names of its parameters in their order."""

    def __init__(self, text: str) -> None:
        if found := _INSERT.fullmatch(text):
            self.verb, self.table = "INSERT", found[1]
            self.sets = [part.split(":")[0].strip().strip("'") for part in found[2].split(", ")]
            self.terms: list[tuple[str, str]] = []
        elif found := _UPDATE.fullmatch(text):
            self.verb, self.table = "UPDATE", found[1]
            self.sets = re.findall(r'SET "([^"]+)" = \?', found[2])
            self.terms = self._where(found[3], text)
        elif found := _DELETE.fullmatch(text):
            self.verb, self.table, self.sets = "DELETE", found[1], []
            self.terms = self._where(found[2], text)
        else:
            raise NotImplementedError(f"the model does not know this statement: {text!r}")
        self.returns_old = text.endswith("RETURNING ALL OLD *")

    @staticmethod
    def _where(text: str, whole: str) -> list[tuple[str, str]]:
        terms = [(name.strip('"'), operator) for name, operator in _TERM.findall(text)]
        if " AND ".join(f'"{name}" {operator} ?' for name, operator in terms) != text.strip():
            raise NotImplementedError(f"the model does not know this statement: {whole!r}")
        if terms[:2] != [("pk", "="), ("sk", "=")]:
            raise NotImplementedError(f"a statement must name its key first: {whole!r}")
        return terms


@lru_cache(maxsize=512)
def statement(text: str) -> Statement:
    """A PartiQL text, parsed once."""
    return Statement(text)
