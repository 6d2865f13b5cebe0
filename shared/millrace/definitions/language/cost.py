"""What an expression may cost, known before it runs: with the message's size, or with its square.

The engine cannot be interrupted, so the compiler bounds it: no comprehension inside another's body, a limited number
of nodes, and a cost of 2 for a comprehension whose body may look at a large part of the message for every item.
An expression of cost 2 is shown small messages only (see `millrace.definitions.cel_engine`).
"""

from __future__ import annotations

from collections.abc import Iterator

from millrace.definitions.language import syntax
from millrace.definitions.language.functions import MACROS
from millrace.definitions.language.syntax import Expr, children

MAX_NODES = 200

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


def cost(expr: Expr) -> int:
    """1 where work grows with the message, 2 where it may grow with its square."""
    bodies = ((call.arguments[-1], _variable(call)) for call in comprehensions(expr))
    return 1 if all(_is_linear(body, variable) for body, variable in bodies) else 2


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
