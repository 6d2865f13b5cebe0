"""Types of expressions, against the message type of their queue.

`json` is dynamic: anything may be done with it and evaluation decides. Everything else is known, so a path that
does not exist or a comparison that can never hold is an error before deploy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.functions import CALLABLE, FUNCTIONS, MACROS, RESERVED, fits, kind_of, usage
from millrace.definitions.language.source import Code, Diagnostics, Source, Span, did_you_mean
from millrace.definitions.language.syntax import Expr
from millrace.definitions.message_type import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    JSON,
    STRING,
    EnumType,
    ListType,
    MapType,
    RecordType,
    ScalarType,
    Type,
)
from millrace.definitions.spelling import parse_duration, parse_time

#: The type of `null`; of no field, so it is not among the types of messages.
NULL = ScalarType("null")

_ARITHMETIC = {
    "+": ("int", "float", "string", "bytes", "list", "duration", "time"),
    "-": ("int", "float", "duration", "time"),
    "*": ("int", "float"),
    "/": ("int", "float"),
    "%": ("int",),
}
_COMPARABLE = ("int", "float", "string", "bytes", "bool", "time", "duration")


@dataclass(frozen=True)
class TypeChecker:
    """Infers the type of an expression; a mistake is reported once and taken as `json` from there on."""

    source: Source
    report: Diagnostics
    scope: Mapping[str, Type]

    def infer(self, expr: Expr) -> Type:
        handler: Callable[[TypeChecker, Any], Type] = _HANDLERS[type(expr)]
        return handler(self, expr)

    def require(self, expr: Expr, kinds: tuple[str, ...], purpose: str) -> Type:
        """The type of an expression that must have one of these kinds (or be dynamic)."""
        found = self.infer(expr)
        if kind_of(found) not in (*kinds, "json"):
            self._wrong(expr.span, f"{purpose} must be {' or '.join(kinds)}, this is {kind_of(found)}")
        return found

    def _wrong(self, span: Span, message: str, hint: str = "", code: Code = Code.TYPE) -> Type:
        self.report.error(self.source, span, code, message, hint)
        return JSON

    def _literal(self, expr: syntax.Literal) -> Type:
        value = expr.value
        known = {bool: BOOL, int: INT, float: FLOAT, str: STRING, bytes: BYTES, type(None): NULL}
        return known[type(value)]

    def _invalid(self, _expr: syntax.Invalid) -> Type:
        return JSON

    def _name(self, expr: syntax.Name) -> Type:
        if expr.text in self.scope:
            return self.scope[expr.text]
        known = tuple(self.scope)
        hint = did_you_mean(expr.text, known, f"the message has: {', '.join(known) or 'no fields'}")
        return self._wrong(expr.span, f"the message has no field `{expr.text}`", hint, Code.UNKNOWN)

    def _select(self, expr: syntax.Select) -> Type:
        owner = self.infer(expr.operand)
        return self._field(owner, expr.field.text, expr.field.span)

    def _field(self, owner: Type, name: str, span: Span) -> Type:
        match owner:
            case RecordType():
                if name in owner.fields:
                    return owner.fields[name].type
                known = tuple(owner.fields)
                hint = did_you_mean(name, known, f"it has: {', '.join(known) or 'no fields'}")
                return self._wrong(span, f"there is no field `{name}`", hint, Code.UNKNOWN)
            case MapType():
                if kind_of(owner.key) != "string":
                    return self._wrong(span, "this map has int keys", "write `map[1]`")
                return owner.value
        if owner == JSON:
            return JSON
        hint = f"for a call write `{name}(…)`" if name in CALLABLE else ""
        return self._wrong(span, f"{kind_of(owner)} has no fields", hint)

    def _index(self, expr: syntax.Index) -> Type:
        owner = self.infer(expr.operand)
        match owner, expr.index:
            case RecordType(), syntax.Literal(value=str() as name):
                return self._field(owner, name, expr.index.span)
            case ListType(), _:
                self.require(expr.index, ("int",), "the index of a list")
                return owner.item
            case MapType(), _:
                self.require(expr.index, (kind_of(owner.key),), "the key of this map")
                return owner.value
        self.infer(expr.index)
        if owner == JSON:
            return JSON
        return self._wrong(expr.span, f"{kind_of(owner)} cannot be indexed like this")

    def _unary(self, expr: syntax.Unary) -> Type:
        if expr.operator == "!":
            self.require(expr.operand, ("bool",), "the operand of `!`")
            return BOOL
        return self.require(expr.operand, ("int", "float"), "the operand of `-`")

    def _logical(self, expr: syntax.Logical) -> Type:
        for operand in expr.operands:
            self.require(operand, ("bool",), f"an operand of `{expr.operator}`")
        return BOOL

    def _ternary(self, expr: syntax.Ternary) -> Type:
        self.require(expr.condition, ("bool",), "the condition before `?`")
        then, otherwise = self.infer(expr.then), self.infer(expr.otherwise)
        if then == otherwise:
            return then
        kinds = {kind_of(then), kind_of(otherwise)}
        return STRING if kinds == {"string"} else JSON

    def _list(self, expr: syntax.ListExpr) -> Type:
        types = [self.infer(item) for item in expr.items]
        return ListType(types[0] if types and all(kind == types[0] for kind in types) else JSON)

    def _map(self, expr: syntax.MapExpr) -> Type:
        for key, value in expr.entries:
            self.require(key, ("string",), "a key")
            self.infer(value)
        return MapType(STRING, JSON)

    def _binary(self, expr: syntax.Binary) -> Type:
        left, right = self.infer(expr.left), self.infer(expr.right)
        if expr.operator in ("==", "!="):
            return self._equality(expr, left, right)
        if expr.operator == "in":
            return self._membership(expr, left, right)
        if expr.operator in ("<", "<=", ">", ">="):
            for side, type_ in ((expr.left, left), (expr.right, right)):
                if kind_of(type_) not in (*_COMPARABLE, "json"):
                    self._wrong(side.span, f"{kind_of(type_)} has no order, `{expr.operator}` needs one")
            return self._equality(expr, left, right)
        return self._arithmetic(expr, left, right)

    def _equality(self, expr: syntax.Binary, left: Type, right: Type) -> Type:
        kinds = {kind_of(left), kind_of(right)}
        if len(kinds) > 1 and not kinds & {"json", "null"} and kinds != {"int", "float"}:
            times = kinds in ({"time", "string"}, {"duration", "string"})
            function = "timestamp" if "time" in kinds else "duration"
            hint = f'write {function}("…") around the string' if times else ""
            self._wrong(expr.span, f"{kind_of(left)} is never comparable with {kind_of(right)}", hint)
        for declared, other in ((left, expr.right), (right, expr.left)):
            self._check_enum(declared, other)
        return BOOL

    def _check_enum(self, declared: Type, other: Expr) -> None:
        if not isinstance(declared, EnumType) or not isinstance(other, syntax.Literal):
            return
        if isinstance(other.value, str) and other.value not in declared.values:
            hint = did_you_mean(other.value, declared.values)
            self._wrong(other.span, f'this field is never "{other.value}"', hint, Code.UNKNOWN)

    def _membership(self, expr: syntax.Binary, left: Type, right: Type) -> Type:
        if kind_of(right) not in ("list", "map", "json"):
            hint = "for a part of a string write `text.contains(part)`" if kind_of(right) == "string" else ""
            self._wrong(expr.right.span, f"`in` needs a list or a map, this is {kind_of(right)}", hint)
        if isinstance(expr.right, syntax.ListExpr):
            for item in expr.right.items:
                self._check_enum(left, item)
        return BOOL

    def _arithmetic(self, expr: syntax.Binary, left: Type, right: Type) -> Type:
        kinds = (kind_of(left), kind_of(right))
        for side, kind in zip((expr.left, expr.right), kinds, strict=True):
            if kind not in (*_ARITHMETIC[expr.operator], "json"):
                hint = "write string(…) around it" if "string" in kinds and expr.operator == "+" else ""
                return self._wrong(side.span, f"`{expr.operator}` does not take {kind}", hint)
        if "json" in kinds or set(kinds) <= {"time", "duration"}:
            return JSON
        if kinds[0] != kinds[1]:
            hint = "write double(…) around the int" if set(kinds) == {"int", "float"} else "write string(…) around it"
            return self._wrong(
                expr.span, f"`{expr.operator}` takes two of one kind, not {kinds[0]} and {kinds[1]}", hint
            )
        return left

    def _call(self, expr: syntax.CallExpr) -> Type:
        name = expr.function.text
        if name == "has":
            return self._has(expr)
        if name in MACROS and expr.receiver is not None:
            return self._macro(expr, expr.receiver)
        receiver = None if expr.receiver is None else self.infer(expr.receiver)
        arguments = tuple(self.infer(argument) for argument in expr.arguments)
        if name not in FUNCTIONS:
            return self._wrong(
                expr.function.span, f"there is no function `{name}`", did_you_mean(name, CALLABLE), Code.UNKNOWN
            )
        self._check_literal_argument(expr)
        for signature in FUNCTIONS[name]:
            if fits(signature, receiver, arguments):
                return signature.result
        return self._wrong(expr.span, f"`{name}` is not called like this", f"write {usage(name)}")

    def _has(self, expr: syntax.CallExpr) -> Type:
        if expr.receiver is not None or len(expr.arguments) != 1 or not isinstance(expr.arguments[0], syntax.Select):
            return self._wrong(expr.span, "`has` asks for a field", "write has(payload.field)")
        self.infer(expr.arguments[0])
        return BOOL

    def _macro(self, expr: syntax.CallExpr, receiver: Expr) -> Type:
        name = expr.function.text
        over = self.require(receiver, ("list", "map"), f"what `{name}` goes through")
        variable, body = expr.arguments if len(expr.arguments) == 2 else (None, None)
        if not isinstance(variable, syntax.Name) or body is None:
            return self._wrong(
                expr.span, f"`{name}` takes a variable and an expression", f"write items.{name}(item, …)"
            )
        if variable.text in self.scope or variable.text in RESERVED:
            return self._wrong(
                variable.span, f"`{variable.text}` is taken", "choose another name for the variable", Code.DUPLICATE
            )
        element = over.item if isinstance(over, ListType) else over.key if isinstance(over, MapType) else JSON
        inner = TypeChecker(self.source, self.report, {**self.scope, variable.text: element})
        if name == "map":
            return ListType(inner.infer(body))
        inner.require(body, ("bool",), f"the body of `{name}`")
        return ListType(element) if name == "filter" else BOOL

    def _check_literal_argument(self, expr: syntax.CallExpr) -> None:
        """What is written as text and can be judged now: times, durations. A pattern must be text, never data."""
        name = expr.function.text
        argument = expr.arguments[0] if len(expr.arguments) == 1 else None
        text = argument.value if isinstance(argument, syntax.Literal) and isinstance(argument.value, str) else None
        if name == "matches" and argument is not None and text is None:
            self._wrong(argument.span, "the pattern must be a string literal, so that no message can choose it")
        parse: Callable[[str], object] | None = {"timestamp": parse_time, "duration": parse_duration}.get(name)
        if parse is None or text is None or argument is None:
            return
        try:
            parse(text)
        except ValueError as exc:
            example = "2026-11-16T09:30:00Z" if name == "timestamp" else "1h30m"
            self._wrong(argument.span, f'"{text[:40]}" is {exc}', f'write {name}("{example}")')


_HANDLERS: dict[type, Callable[[TypeChecker, Any], Type]] = {
    syntax.Literal: TypeChecker._literal,
    syntax.Invalid: TypeChecker._invalid,
    syntax.Name: TypeChecker._name,
    syntax.Select: TypeChecker._select,
    syntax.Index: TypeChecker._index,
    syntax.Unary: TypeChecker._unary,
    syntax.Logical: TypeChecker._logical,
    syntax.Ternary: TypeChecker._ternary,
    syntax.ListExpr: TypeChecker._list,
    syntax.MapExpr: TypeChecker._map,
    syntax.Binary: TypeChecker._binary,
    syntax.CallExpr: TypeChecker._call,
}
