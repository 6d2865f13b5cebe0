"""What an expression may cost, known before it runs.

The engine cannot be interrupted, so the compiler bounds it: no comprehension inside another's body, a limited number
of nodes, and a limit on how much of a message an expression is shown (`max_weight`, held by
`millrace.definitions.cel_engine`), so that the worst takes about a second. The limit falls with the number of parts
that may go through all of it, and faster with those whose work grows with its square: `map` and `filter` (the engine
copies the list so far for every item: 0.1 s for 1,000 items, 30 s for 20,000), and bodies that may look at a large
part of the message for every item.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from millrace.definitions.language import syntax
from millrace.definitions.language.functions import MACROS
from millrace.definitions.language.syntax import Expr, children

MAX_NODES = 200

#: Weight times parts, and weight squared times quadratic parts, that take about a second.
LINEAR_WORK = 200_000
SQUARED_WORK = 2_500_000

#: Macros for which the engine copies its result so far at every item.
_COPYING = ("map", "filter")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from nodes(child)


def comprehensions(expr: Expr) -> Iterator[syntax.Call]:
    for node in nodes(expr):
        if isinstance(node, syntax.Call) and node.function.text in MACROS and len(node.arguments) == 2:
            yield node


def nested_comprehension(expr: Expr) -> Expr | None:
    """A comprehension that would run once for every item of another."""
    for outer in comprehensions(expr):
        for inner in comprehensions(outer.arguments[-1]):
            return inner
    return None


def max_weight(expr: Expr) -> int:
    """How much of a message this expression may be shown: values, plus characters / 64."""
    parts = sum(1 for node in nodes(expr) if isinstance(node, syntax.Call | syntax.Binary))
    linear = LINEAR_WORK // max(1, parts)
    quadratic = quadratic_parts(expr)
    return linear if quadratic == 0 else min(linear, math.isqrt(SQUARED_WORK // quadratic))


def quadratic_parts(expr: Expr) -> int:
    """How many parts of an expression may cost the square of what it sees."""
    return sum(_quadratic(call) for call in comprehensions(expr))


def _quadratic(call: syntax.Call) -> int:
    body = call.arguments[-1]
    copies = 1 if call.function.text in _COPYING else 0
    return copies if _is_linear(body, _variable(call)) else copies + sum(1 for _ in nodes(body))


def _variable(call: syntax.Call) -> str:
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
        if isinstance(node, syntax.Call) and node.function.text == "matches":
            return False
    return True


def _is_path(expr: Expr, variable: str) -> bool:
    """A field of the message, perhaps the one that the item names: found in constant time, not looked through."""
    while isinstance(expr, syntax.Select | syntax.Index):
        if isinstance(expr, syntax.Index) and not _is_own(expr.index, variable):
            return False
        expr = expr.operand
    return isinstance(expr, syntax.Name)
