"""From a checked expression to what the compiled definitions carry: a form where one exists, else CEL text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lark import Token

from millrace.definitions.cel_engine import LENGTH
from millrace.definitions.expression import STRING_TESTS
from millrace.definitions.language import syntax
from millrace.definitions.language.cost import (
    MAX_NODES,
    MIN_WEIGHT,
    comprehensions,
    max_weight,
    nested_comprehension,
    nodes,
)
from millrace.definitions.language.expression_text import expression_text
from millrace.definitions.language.functions import kind_of
from millrace.definitions.language.parser import Parsed
from millrace.definitions.language.patterns import pattern_problem
from millrace.definitions.language.source import Code, Diagnostics
from millrace.definitions.language.syntax import Expr, Literal, children
from millrace.definitions.language.typecheck import TypeChecker
from millrace.definitions.message_type import INT, MapType, RecordType, Type

MAX_EXPRESSION_CHARACTERS = 2_000


def lower(parsed: Parsed, expr: Expr, message_type: RecordType, report: Diagnostics, purpose: str, *kinds: str) -> Any:
    """The compiled expression, or None where an error was reported.

    `kinds` are those that its value may have; none means any.
    """
    errors = len(report.findings)
    scope: dict[str, Type] = {name: field.type for name, field in message_type.fields.items()}
    checker = TypeChecker(parsed.source, report, scope)
    if kinds:
        checker.require(expr, kinds, purpose)
    else:
        checker.infer(expr)
    text = expression_text(parsed.tokens_of(expr.span))
    _check_limits(parsed, expr, text, report)
    if len(report.findings) > errors:
        return None
    form = _Former(checker).form(expr)
    if form is not None:
        return {"text": text, "form": form}
    cel = expression_text(_for_engine(parsed.tokens_of(expr.span)))
    _check_with_engine(parsed, expr, cel, report)
    uses = sorted(path for path in set(_paths(expr)) if path[0] in scope)
    return {"text": text, "cel": cel, "uses": [list(path) for path in uses], "max_weight": max_weight(expr)}


def _paths(expr: Expr) -> Iterator[tuple[str, ...]]:
    """The longest paths of names that an expression looks at; it is shown nothing else."""
    steps: list[str] = []
    node = expr
    while isinstance(node, syntax.Select | syntax.Index):
        index = node.index if isinstance(node, syntax.Index) else None
        if isinstance(node, syntax.Select):
            steps.append(node.field.text)
        elif isinstance(index, Literal) and isinstance(index.value, str):
            steps.append(index.value)
        else:
            steps.clear()
            yield from () if index is None else _paths(index)
        node = node.operand
    if isinstance(node, syntax.Name):
        yield (node.text, *reversed(steps))
        return
    for child in children(node):
        yield from _paths(child)


def _for_engine(tokens: list[Token]) -> list[Token]:
    """The tokens with calls of `size` renamed to the one that counts as CEL does."""
    called = [token.type == "LPAR" for token in tokens[1:]] + [False]
    return [
        token.update(value=LENGTH) if call and token.type == "NAME" and str(token) == "size" else token
        for token, call in zip(tokens, called, strict=True)
    ]


def _check_limits(parsed: Parsed, expr: Expr, text: str, report: Diagnostics) -> None:
    """Sizes, and nothing that could run for minutes whatever the message is."""
    hint = "split it over several fields"
    if sum(1 for _ in nodes(expr)) > MAX_NODES:
        report.error(parsed.source, expr.span, Code.RANGE, f"the expression has more than {MAX_NODES} parts", hint)
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        message = f"the expression has more than {MAX_EXPRESSION_CHARACTERS} characters"
        report.error(parsed.source, expr.span, Code.RANGE, message, hint)
    nested = nested_comprehension(expr)
    if nested is not None:
        message = "a comprehension inside the body of another could run for minutes"
        report.error(parsed.source, nested.span, Code.RANGE, message, "chain them: items.filter(…).map(…)")
    elif max_weight(expr) < MIN_WEIGHT:
        message = "the expression could run for minutes even on a small message"
        report.error(parsed.source, expr.span, Code.RANGE, message, "use fewer comprehensions")


def _check_with_engine(parsed: Parsed, expr: Expr, text: str, report: Diagnostics) -> None:
    """The engine's own word: that it reads the text as we do, and that every pattern is one."""
    from millrace.definitions.cel_engine import compiled
    from millrace.definitions.expression import EvaluationError

    try:
        compiled(text)
    except EvaluationError as exc:
        report.error(parsed.source, expr.span, Code.TYPE, f"the CEL engine refuses this: {exc}")
    in_bodies = {node.span for call in comprehensions(expr) for node in nodes(call.arguments[-1])}
    for node in nodes(expr):
        if isinstance(node, syntax.CallExpr) and node.function.text == "matches":
            pattern = node.arguments[0]
            problem = pattern_problem(str(getattr(pattern, "value", "")), in_body=node.span in in_bodies)
            if problem:
                report.error(parsed.source, pattern.span, Code.RANGE, problem)


class _Former:
    """Writes the form of an expression, or None where only the engine can evaluate it."""

    def __init__(self, checker: TypeChecker) -> None:
        self._checker = checker

    def form(self, expr: Expr) -> dict[str, Any] | None:
        match expr:
            case Literal():
                return None if isinstance(expr.value, bytes) else {"literal": expr.value}
            case syntax.Name() | syntax.Select() | syntax.Index():
                steps = self._steps(expr)
                return None if steps is None else {"path": steps}
            case syntax.Logical():
                return self._over("and" if expr.operator == "&&" else "or", expr.operands)
            case syntax.Ternary():
                return self._over("if", (expr.condition, expr.then, expr.otherwise))
            case syntax.Unary(operator="!"):
                return self._over("not", (expr.operand,))
            case syntax.ListExpr():
                return self._over("list", expr.items)
            case syntax.MapExpr():
                return self._map(expr)
            case syntax.Binary():
                return self._comparison(expr)
            case syntax.CallExpr():
                return self._call(expr)
        return None

    def _over(self, operation: str, operands: tuple[Expr, ...]) -> dict[str, Any] | None:
        forms = [self.form(operand) for operand in operands]
        return None if None in forms else {operation: forms}

    def _steps(self, expr: Expr) -> list[str | int] | None:
        """The steps of a plain path. A map with int keys is not plain: JSON spells its keys as strings."""
        steps: list[str | int] = []
        while not isinstance(expr, syntax.Name):
            if isinstance(expr, syntax.Select):
                step: object = expr.field.text
            elif isinstance(expr, syntax.Index) and isinstance(expr.index, Literal):
                step = expr.index.value
            else:
                return None
            owner = self._checker.infer(expr.operand)
            int_keys = isinstance(owner, MapType) and owner.key == INT
            if int_keys or isinstance(step, bool) or not isinstance(step, str | int):
                return None
            steps.append(step)
            expr = expr.operand
        return [expr.text, *reversed(steps)]

    def _map(self, expr: syntax.MapExpr) -> dict[str, Any] | None:
        entries: dict[str, Any] = {}
        for key, value in expr.entries:
            form = self.form(value)
            if not isinstance(key, Literal) or not isinstance(key.value, str) or form is None or key.value in entries:
                return None
            entries[key.value] = form
        return {"map": entries}

    def _comparison(self, expr: syntax.Binary) -> dict[str, Any] | None:
        """Equality with a scalar literal and membership in a list of them; the engine compares whole structures."""
        if expr.operator in ("==", "!=") and (_is_scalar(expr.left) or _is_scalar(expr.right)):
            return self._over("eq" if expr.operator == "==" else "ne", (expr.left, expr.right))
        if expr.operator == "in" and isinstance(expr.right, syntax.ListExpr):
            scalar = all(_is_scalar(item) for item in expr.right.items)
            return self._over("in", (expr.left, expr.right)) if scalar else None
        return None

    def _call(self, expr: syntax.CallExpr) -> dict[str, Any] | None:
        name = expr.function.text
        if name == "has":
            steps = self._steps(expr.arguments[0])
            return None if steps is None else {"has": steps}
        if name not in STRING_TESTS or expr.receiver is None:
            return None
        operands = (expr.receiver, *expr.arguments)
        texts = all(kind_of(self._checker.infer(operand)) in ("string", "json") for operand in operands)
        forms = [self.form(operand) for operand in operands]
        return None if None in forms or not texts else {"call": [name, *forms]}


def _is_scalar(expr: Expr) -> bool:
    return isinstance(expr, Literal) and not isinstance(expr.value, bytes)
