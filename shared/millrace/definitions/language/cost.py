"""What an expression may cost, known before it runs.

The engine cannot be interrupted, so the compiler bounds it: no comprehension inside another's body, a limited number
of nodes, and a limit on how much of a message an expression is shown (`max_weight`, held by
`millrace.definitions.cel_engine`), so that the worst takes about a second on a slow machine. The limit falls with the
work that goes through all of what is shown, faster with work that grows with its square, and fastest with its cube:

- `map` and `filter` are quadratic: the engine copies the list so far for every item, deeply (0.1 s for 1,000 items,
  30 s for 20,000);
- a body that may look at a large part of the message for every item is quadratic;
- a `map` with such a body is cubic: what it copies grows as fast as it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from millrace.definitions.language import syntax
from millrace.definitions.language.functions import MACROS
from millrace.definitions.language.syntax import Expr, children

MAX_NODES = 200
#: An expression that may be shown less than this is of no use: it is refused.
MIN_WEIGHT = 50

#: Units of work, each about a second's worth.
LINEAR_WORK = 400_000
SQUARED_WORK = 2_500_000
CUBED_WORK = 10_000_000

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from nodes(child)


def comprehensions(expr: Expr) -> Iterator[syntax.CallExpr]:
    for node in nodes(expr):
        if isinstance(node, syntax.CallExpr) and _is_comprehension(node):
            yield node


def _is_comprehension(call: syntax.CallExpr) -> bool:
    return call.function.text in MACROS and len(call.arguments) == 2


def nested_comprehension(expr: Expr) -> Expr | None:
    """A comprehension that would run once for every item of another."""
    for outer in comprehensions(expr):
        for inner in comprehensions(outer.arguments[-1]):
            return inner
    return None


@dataclass(frozen=True, slots=True)
class Cost:
    """Factors of the weight shown, of its square and of its cube."""

    linear: int = 0
    squared: int = 0
    cubed: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.linear + other.linear, self.squared + other.squared, self.cubed + other.cubed)


def max_weight(expr: Expr) -> int:
    """How much of a message this expression may be shown: values, plus characters / 64."""
    cost = Cost(linear=growth(expr)) + _cost(expr)
    limits = [
        LINEAR_WORK // max(1, cost.linear),
        math.isqrt(SQUARED_WORK // max(1, cost.squared)) if cost.squared else LINEAR_WORK,
        int((CUBED_WORK // cost.cubed) ** (1 / 3)) if cost.cubed else LINEAR_WORK,
    ]
    return min(limits)


def growth(expr: Expr) -> int:
    """How many times the message a value can hold: `l + l` twice, `l.map(x, [x, x])` twice, again twice that."""
    match expr:
        case syntax.Select() | syntax.Index():
            return growth(expr.operand)
        case syntax.CallExpr(receiver=None):
            return max(1, sum(growth(argument) for argument in expr.arguments))
        case syntax.CallExpr() if expr.receiver is not None:
            body = growth(expr.arguments[-1]) if expr.function.text == "map" and expr.arguments else 1
            return growth(expr.receiver) * body
    return max(1, sum(growth(child) for child in children(expr)))


def _cost(expr: Expr) -> Cost:
    if isinstance(expr, syntax.CallExpr) and _is_comprehension(expr):
        return _comprehension_cost(expr)
    total = Cost(linear=sum(growth(child) for child in children(expr)))
    for child in children(expr):
        total += _cost(child)
    return total


def _comprehension_cost(call: syntax.CallExpr) -> Cost:
    receiver = call.receiver
    body, variable, copying = call.arguments[-1], _variable(call), call.function.text in ("map", "filter")
    items = 1 if receiver is None else growth(receiver)
    cost = Cost() if receiver is None else _cost(receiver)
    copied = growth(body) if call.function.text == "map" else 1
    each = sum(growth(node) for node in nodes(body))
    if _is_linear(body, variable):
        return cost + Cost(linear=items * each, squared=items * items * copied if copying else 0)
    cubed = items * items * copied if call.function.text == "map" else 0
    return cost + Cost(squared=items * each + (items * items if copying else 0), cubed=cubed)


def _variable(call: syntax.CallExpr) -> str:
    variable = call.arguments[0]
    return variable.text if isinstance(variable, syntax.Name) else ""


def _is_linear(body: Expr, variable: str) -> bool:
    """Whether running a body for every item costs no more than the items together.

    So it is where the body looks at its own item and literals only, or compares those with one path elsewhere:
    a comparison ends with the shorter side.
    """
    if _is_own(body, variable):
        return True
    match body:
        case syntax.Logical() | syntax.Unary():
            return all(_is_linear(operand, variable) or _is_path(operand, variable) for operand in children(body))
        case syntax.Ternary():
            condition = _is_linear(body.condition, variable) or _is_path(body.condition, variable)
            return condition and _is_linear(body.then, variable) and _is_linear(body.otherwise, variable)
        case syntax.Binary() if body.operator in _COMPARISONS:
            sides = (body.left, body.right)
            return any(_is_own(side, variable) for side in sides) and all(
                _is_own(side, variable) or _is_path(side, variable) for side in sides
            )
    return False


def _is_own(expr: Expr, variable: str) -> bool:
    """Built from the item and literals alone. A pattern is compiled at every call, so it does not count."""
    for node in nodes(expr):
        if isinstance(node, syntax.Name) and node.text != variable:
            return False
        if isinstance(node, syntax.CallExpr) and node.function.text == "matches":
            return False
    return True


def _is_path(expr: Expr, variable: str) -> bool:
    """A field of the message, perhaps the one that the item names: found in constant time, not looked through."""
    while isinstance(expr, syntax.Select | syntax.Index):
        if isinstance(expr, syntax.Index) and not _is_own(expr.index, variable):
            return False
        expr = expr.operand
    return isinstance(expr, syntax.Name)
