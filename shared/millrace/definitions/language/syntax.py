"""The syntax tree. Every node knows its place; every expression knows its depth, so that no walk can run away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from millrace.definitions.language.source import Span

#: Deepest expression or type; also keeps every walk over the tree far from the recursion limit.
MAX_EXPRESSION_DEPTH = 32
MAX_TYPE_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Word:
    """A name as it was written."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float | str | bytes | None
    span: Span
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Select:
    operand: Expr
    field: Word
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Index:
    operand: Expr
    index: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class CallExpr:
    """`function(arguments)`, or `receiver.function(arguments)`."""

    receiver: Expr | None
    function: Word
    arguments: tuple[Expr, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Expr
    right: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Logical:
    """`&&` or `||` over two or more operands."""

    operator: str
    operands: tuple[Expr, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Ternary:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class ListExpr:
    items: tuple[Expr, ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class MapExpr:
    entries: tuple[tuple[Expr, Expr], ...]
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Invalid:
    """An expression that was refused while parsing; already reported."""

    span: Span
    depth: int = 1


Expr: TypeAlias = (
    Literal | Name | Select | Index | CallExpr | Unary | Binary | Logical | Ternary | ListExpr | MapExpr | Invalid
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression, left to right."""
    match expr:
        case Select():
            return (expr.operand,)
        case Index():
            return (expr.operand, expr.index)
        case CallExpr():
            return (() if expr.receiver is None else (expr.receiver,)) + expr.arguments
        case Unary():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Logical():
            return expr.operands
        case Ternary():
            return (expr.condition, expr.then, expr.otherwise)
        case ListExpr():
            return expr.items
        case MapExpr():
            return tuple(side for entry in expr.entries for side in entry)
    return ()


@dataclass(frozen=True, slots=True)
class TypeExpr:
    """`name`, `name<arguments>`, `enum("a", "b")` or `{ fields }` (name is then empty)."""

    name: Word
    span: Span
    depth: int = 1
    arguments: tuple[TypeExpr, ...] = ()
    values: tuple[Literal, ...] | None = None
    fields: tuple[TypeField, ...] | None = None


@dataclass(frozen=True, slots=True)
class TypeField:
    name: Word
    optional: bool
    type: TypeExpr
    span: Span


@dataclass(frozen=True, slots=True)
class Property:
    """`name: value`."""

    name: Word
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class TypeBlock:
    """`message_type { fields }`."""

    name: Word
    fields: tuple[TypeField, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Mapping:
    """`map_to: kind destination (options) { fields }`; without a block the whole message is handed over."""

    name: Word
    kind: Word
    destination: Literal | Word
    fields: tuple[Property, ...] | None
    span: Span
    options: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """`kind label { members }`."""

    kind: Word
    label: Word | Literal | None
    members: tuple[Member, ...]
    span: Span


Member: TypeAlias = Property | TypeBlock | Mapping | Block


@dataclass(frozen=True, slots=True)
class File:
    blocks: tuple[Block, ...]
