"""DynamoDB's condition and update expressions, for the tables of an app under test.

Each text is parsed once, by recursive descent, and kept as a function. What DynamoDB would refuse raises `ValueError`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

Item = dict[str, Any]
Values = Mapping[str, Any]
Path = tuple[str | int, ...]
#: What an operand is in an item; None where it is missing.
Operand = Callable[[Item, Values], Any]
Test = Callable[[Item, Values], bool]
Change = Callable[[Item, Item, Values], None]

_TOKEN = re.compile(r"\s*(:\w+|#\w+|[A-Za-z_]\w*|\d+|<=|>=|<>|[=<>(),.\[\]+-])")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_SETS = ("SS", "NS", "BS")
_CLAUSES = ("SET", "REMOVE", "ADD", "DELETE")


def comparable(value: Any) -> tuple[str, Any]:
    """A value with its type, so that equal ones are equal: numbers by value, sets without order."""
    ((kind, raw),) = value.items()
    match kind:
        case "N":
            return kind, Decimal(raw)
        case "B":
            return kind, bytes(raw)
        case "SS" | "BS":
            return kind, frozenset(raw)
        case "NS":
            return kind, frozenset(map(Decimal, raw))
        case "L":
            return kind, tuple(map(comparable, raw))
        case "M":
            return kind, {name: comparable(one) for name, one in raw.items()}
        case _:
            return kind, raw


def _compared(found: Any, operator: str, wanted: Any) -> bool:
    """A missing attribute, or one of another type, fulfils no comparison but `<>`."""
    if found is None or wanted is None:
        return operator == "<>" and found is not wanted
    left, right = comparable(found), comparable(wanted)
    if operator in ("=", "<>"):
        return (left == right) is (operator == "=")
    return left[0] == right[0] and left[0] in "SNB" and _COMPARE[operator](left[1], right[1])


def _at(item: Any, path: Path) -> Any:
    """What lies at a path; None where nothing does."""
    found: Any = {"M": item}
    for part in path:
        inside = found.get("M" if isinstance(part, str) else "L") if isinstance(found, dict) else None
        if isinstance(part, str):
            found = inside.get(part) if isinstance(inside, dict) else None
        else:
            found = inside[part] if isinstance(inside, list) and part < len(inside) else None
        if found is None:
            return None
    return found


def _size(value: Any) -> Any:
    if value is None:
        return None
    ((kind, raw),) = value.items()
    if kind in ("N", "BOOL", "NULL"):
        raise ValueError(f"size() of the type {kind}")
    return {"N": str(len(raw.encode()) if kind == "S" else len(raw))}


def _contains(whole: Any, part: Any) -> bool:
    if whole is None or part is None:
        return False
    (kind, raw), (part_kind, wanted) = next(iter(whole.items())), next(iter(part.items()))
    if kind == "L":
        return any(comparable(one) == comparable(part) for one in raw)
    if kind in _SETS:
        return part_kind == kind[0] and comparable(part)[1] in comparable(whole)[1]
    return bool(part_kind == kind and wanted in raw)


class _Parser:
    """The tokens of one text, and what can be read from them."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self.text = text
        self._names = names
        self._tokens: list[str] = []
        self._at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise self.wrong()
            self._tokens.append(found[1])
            position = found.end()

    def wrong(self) -> ValueError:
        return ValueError(f"DynamoDB would not take this expression: {self.text!r}")

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            raise self.wrong()
        self._at += 1
        return token

    def took(self, *tokens: str) -> bool:
        """Take the next token where it is one of these, whatever its case."""
        if self.peek().upper() not in tokens:
            return False
        self._at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.took(token):
            raise self.wrong()

    # -- operands --
    def path(self) -> Path:
        parts: list[str | int] = [self._name(self.next())]
        while True:
            if self.took("."):
                parts.append(self._name(self.next()))
            elif self.took("["):
                parts.append(int(self.next()))
                self.expect("]")
            else:
                return tuple(parts)

    def _name(self, token: str) -> str:
        if token.startswith("#"):
            if token not in self._names:
                raise self.wrong()
            return self._names[token]
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            raise self.wrong()
        return token

    def operand(self) -> Operand:
        token = self.peek()
        if token.startswith(":"):
            self.next()
            return lambda _item, values: values[token]
        if token in ("size", "if_not_exists", "list_append") and self._tokens[self._at + 1 : self._at + 2] == ["("]:
            return self._function(self.next())
        path = self.path()
        return lambda item, _values: _at(item, path)

    def _function(self, name: str) -> Operand:
        self.expect("(")
        first = self.operand()
        if name == "size":
            self.expect(")")
            return lambda item, values: _size(first(item, values))
        self.expect(",")
        second = self.operand()
        self.expect(")")
        if name == "if_not_exists":

            def if_not_exists(item: Item, values: Values) -> Any:
                found = first(item, values)
                return second(item, values) if found is None else found

            return if_not_exists
        return lambda item, values: {"L": [*first(item, values)["L"], *second(item, values)["L"]]}

    # -- conditions --
    def condition(self) -> Test:
        parts = [self._both()]
        while self.took("OR"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda item, values: any(part(item, values) for part in parts)

    def _both(self) -> Test:
        parts = [self._one()]
        while self.took("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda item, values: all(part(item, values) for part in parts)

    def _one(self) -> Test:
        if self.took("NOT"):
            inner = self._one()
            return lambda item, values: not inner(item, values)
        if self.took("("):
            found = self.condition()
            self.expect(")")
            return found
        if self.peek() in _TESTS and self._tokens[self._at + 1 : self._at + 2] == ["("]:
            return self._test(self.next())
        return self._comparison(self.operand())

    def _test(self, name: str) -> Test:
        self.expect("(")
        path, second = self.path(), None
        if name not in ("attribute_exists", "attribute_not_exists"):
            self.expect(",")
            second = self.operand()
        self.expect(")")
        test = _TESTS[name]
        return lambda item, values: test(_at(item, path), second(item, values) if second else None)

    def _comparison(self, left: Operand) -> Test:
        if self.took("BETWEEN"):
            low = self.operand()
            self.expect("AND")
            high = self.operand()
            return lambda item, values: (
                _compared(left(item, values), ">=", low(item, values))
                and _compared(left(item, values), "<=", high(item, values))
            )
        if self.took("IN"):
            self.expect("(")
            wanted = [self.operand()]
            while self.took(","):
                wanted.append(self.operand())
            self.expect(")")
            return lambda item, values: any(_compared(left(item, values), "=", one(item, values)) for one in wanted)
        operator = self.next()
        if operator not in ("=", "<>", *_COMPARE):
            raise self.wrong()
        right = self.operand()
        return lambda item, values: _compared(left(item, values), operator, right(item, values))

    # -- updates --
    def changes(self) -> tuple[Change, ...]:
        found: list[Change] = []
        while self.peek():
            clause = self.next().upper()
            if clause not in _CLAUSES:
                raise self.wrong()
            found.append(self._change(clause))
            while self.took(","):
                found.append(self._change(clause))
        if not found:
            raise self.wrong()
        return tuple(found)

    def _change(self, clause: str) -> Change:
        path = self.path()
        if clause == "REMOVE":
            return lambda new, _old, _values: _remove(new, path)
        if clause == "SET":
            self.expect("=")
            value = self._sum()
            return lambda new, old, values: _put(new, path, value(old, values))
        given = self.operand()
        change = _add if clause == "ADD" else _take_out
        return lambda new, old, values: change(new, path, _at(old, path), given(old, values))

    def _sum(self) -> Operand:
        left = self.operand()
        if self.peek() not in ("+", "-"):
            return left
        sign = 1 if self.next() == "+" else -1
        right = self.operand()
        return lambda item, values: _number(left(item, values), right(item, values), sign)


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "attribute_exists": lambda found, _given: found is not None,
    "attribute_not_exists": lambda found, _given: found is None,
    "attribute_type": lambda found, given: found is not None and next(iter(found)) == given["S"],
    "begins_with": lambda found, given: (
        found is not None
        and next(iter(found)) == next(iter(given))
        and next(iter(found.values())).startswith(next(iter(given.values())))
    ),
    "contains": _contains,
}


def _number(left: Any, right: Any, sign: int) -> Item:
    try:
        return {"N": str(Decimal(left["N"]) + sign * Decimal(right["N"]))}
    except (KeyError, TypeError):
        raise ValueError("An operand of an update is not a number, or is missing.") from None


def _put(item: Item, path: Path, value: Any) -> None:
    if value is None:
        raise ValueError(f"The value for {path[0]!r} is missing in the item.")
    inside = _inside(item, path)
    last = path[-1]
    if isinstance(last, int) and last >= len(inside):
        inside.append(copy.deepcopy(value))
    else:
        inside[last] = copy.deepcopy(value)


def _inside(item: Item, path: Path) -> Any:
    """What holds the last part of a path: a map's members, or a list's."""
    parent = {"M": item} if len(path) == 1 else _at(item, path[:-1])
    kind = "M" if isinstance(path[-1], str) else "L"
    if parent is None or kind not in parent:
        raise ValueError(f"The path to {path[-1]!r} is not in the item.")
    return parent[kind]


def _remove(item: Item, path: Path) -> None:
    if _at(item, path) is not None:
        del _inside(item, path)[path[-1]]


def _add(item: Item, path: Path, before: Any, given: Any) -> None:
    ((kind, raw),) = given.items()
    if kind == "N":
        _put(item, path, _number(before or {"N": "0"}, given, 1))
    elif kind in _SETS and (before is None or kind in before):
        kept = before[kind] if before else []
        _put(item, path, {kind: [*kept, *(one for one in raw if one not in kept)]})
    else:
        raise ValueError("ADD takes a number or a set, of the type that is there.")


def _take_out(item: Item, path: Path, before: Any, given: Any) -> None:
    ((kind, raw),) = given.items()
    if before is None:
        return
    if kind not in _SETS or kind not in before:
        raise ValueError("DELETE takes a set, of the type that is there.")
    left = [one for one in before[kind] if one not in raw]
    if left:
        _put(item, path, {kind: left})
    else:
        _remove(item, path)


@lru_cache(maxsize=512)
def _condition(text: str, names: tuple[tuple[str, str], ...]) -> Test:
    parser = _Parser(text, dict(names))
    found = parser.condition()
    if parser.peek():
        raise parser.wrong()
    return found


def holds(text: str | None, names: Mapping[str, str] | None, values: Values | None, item: Item | None) -> bool:
    """Whether an item (None where there is none) fulfils a ConditionExpression."""
    return not text or _condition(text, tuple(sorted((names or {}).items())))(item or {}, values or {})


@lru_cache(maxsize=512)
def _changes(text: str, names: tuple[tuple[str, str], ...]) -> tuple[Change, ...]:
    return _Parser(text, dict(names)).changes()


def updated(text: str, names: Mapping[str, str] | None, values: Values | None, item: Item) -> Item:
    """An item after an UpdateExpression; every value is read from it as it was before."""
    new = copy.deepcopy(item)
    for change in _changes(text, tuple(sorted((names or {}).items()))):
        change(new, item, values or {})
    return new
