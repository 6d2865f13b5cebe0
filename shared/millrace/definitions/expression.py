"""Expressions of queue definitions, evaluated against one message.

Nearly every expression in practice is a field path, a literal, or a choice between them. The compiler writes those
as a small JSON *form*, which `_FORMS` evaluates here without any CEL library; everything else carries its CEL text
and goes to `millrace.definitions.cel_engine`, imported on first use. Property tests hold both to the same answers.

An expression sees the message and nothing else: a form has no operation that calls, imports or looks up an attribute.
Its work is bounded by its own size, which the compiler limits, and by the strings it compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millrace.definitions.message_type import RecordType, describe_value
from millrace.model.errors import ExpressionFailed, InvalidDefinitions
from millrace.model.values import dataclass

#: A form deeper than the compiler writes was not written by the compiler.
MAX_FORM_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Expression:
    """One compiled expression."""

    text: str
    message_type: RecordType
    form: Mapping[str, Any] | None  #: evaluated here; None where the CEL engine is needed
    cel: str = ""  #: the text for the CEL engine
    uses: tuple[tuple[str, ...], ...] = ()  #: paths of the message that the CEL engine is shown; no others
    max_weight: int = 0  #: how much of the message the CEL engine may be shown, so that it ends in about a second

    def evaluate(self, message: Mapping[str, Any]) -> Any:
        """The value for one message, as JSON spells it.

        Raises ExpressionFailed where the message has no such field, an operand has the wrong type, or the message is
        beyond what an evaluation may look at; never anything else, whatever the message is.
        """
        try:
            if self.form is not None:
                return _evaluate(self.form, message)
            from millrace.definitions import cel_engine

            return cel_engine.evaluate(self, message)
        except EvaluationError as exc:
            raise ExpressionFailed(self.text, str(exc)) from exc


class EvaluationError(Exception):
    """Why an expression has no value for a message; turned into ExpressionFailed with the expression's text."""


def read_expression(written: Any, message_type: RecordType | None) -> Expression:
    """The expression that compiled definitions describe. Raises InvalidDefinitions for anything else."""
    if message_type is None:
        raise InvalidDefinitions("an expression needs a message_type to read from")
    match written:
        case {"text": str() as text, "form": dict() as form}:
            _check_form(form, MAX_FORM_DEPTH)
            return Expression(text, message_type, form)
        case {"text": str() as text, "cel": str() as cel, "uses": [*uses], "max_weight": int() as max_weight}:
            return Expression(text, message_type, None, cel, tuple(tuple(path) for path in uses), max_weight)
    raise InvalidDefinitions(f"{str(written)[:60]} is not an expression")


def read_optional_expression(written: Any, message_type: RecordType | None) -> Expression | None:
    return None if written is None else read_expression(written, message_type)


def _check_form(form: Any, depth: int) -> None:
    if depth == 0 or not isinstance(form, dict) or len(form) != 1:
        raise InvalidDefinitions(f"{str(form)[:60]} is not an expression")
    ((operation, operands),) = form.items()
    if operation not in _FORMS or (operation != "literal" and not isinstance(operands, list | dict)):
        raise InvalidDefinitions(f"{str(form)[:60]} is not an expression")
    if operation in ("literal", "path", "has", "call"):
        nested = [] if operation != "call" else operands[1:]
    else:
        nested = list(operands.values()) if isinstance(operands, dict) else operands
    for operand in nested:
        _check_form(operand, depth - 1)


def _evaluate(form: Mapping[str, Any], message: Mapping[str, Any]) -> Any:
    ((operation, operands),) = form.items()
    return _FORMS[operation](operands, message)


def _literal(value: Any, _message: Mapping[str, Any]) -> Any:
    return value


def _path(steps: list[str | int], message: Mapping[str, Any]) -> Any:
    value: Any = message
    for step in steps:
        value = _step(value, step)
    return value


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        if not isinstance(value, Mapping):
            raise EvaluationError(f"{describe_value(value)} has no field {step!r}")
        if step not in value:
            raise EvaluationError(f"there is no field {step!r}")
        return value[step]
    if not isinstance(value, list):
        raise EvaluationError(f"{describe_value(value)} has no item {step}")
    if not 0 <= step < len(value):
        raise EvaluationError(f"there is no item {step}")
    return value[step]


def _has(steps: list[str | int], message: Mapping[str, Any]) -> bool:
    value = _path(steps[:-1], message)
    if not isinstance(value, Mapping):
        raise EvaluationError(f"{describe_value(value)} has no fields")
    return steps[-1] in value


def _equal(operands: list[Any], message: Mapping[str, Any]) -> bool:
    return scalars_equal(_evaluate(operands[0], message), _evaluate(operands[1], message))


def _unequal(operands: list[Any], message: Mapping[str, Any]) -> bool:
    return not _equal(operands, message)


def scalars_equal(left: object, right: object) -> bool:
    """CEL equality where one side is a scalar: numbers by value, a bool is no number, nothing else converts."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(left, int) and isinstance(right, int):
            return left == right
        return _as_float(left) == _as_float(right)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return left is None and right is None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _in(operands: list[Any], message: Mapping[str, Any]) -> bool:
    value = _evaluate(operands[0], message)
    return any(scalars_equal(value, item) for item in _evaluate(operands[1], message))


def _require_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"expected a bool, found {describe_value(value)}")
    return value


def _logical(operands: list[Any], message: Mapping[str, Any], *, decisive: bool) -> bool:
    """CEL's `||` (decisive: true) and `&&` (decisive: false): a decisive operand wins over a failing one."""
    failure: EvaluationError | None = None
    for operand in operands:
        try:
            if _require_bool(_evaluate(operand, message)) is decisive:
                return decisive
        except EvaluationError as exc:
            failure = failure or exc
    if failure is not None:
        raise failure
    return not decisive


def _or(operands: list[Any], message: Mapping[str, Any]) -> bool:
    return _logical(operands, message, decisive=True)


def _and(operands: list[Any], message: Mapping[str, Any]) -> bool:
    return _logical(operands, message, decisive=False)


def _not(operands: list[Any], message: Mapping[str, Any]) -> bool:
    return not _require_bool(_evaluate(operands[0], message))


def _if(operands: list[Any], message: Mapping[str, Any]) -> Any:
    condition = _require_bool(_evaluate(operands[0], message))
    return _evaluate(operands[1] if condition else operands[2], message)


def _list(operands: list[Any], message: Mapping[str, Any]) -> list[Any]:
    return [_evaluate(operand, message) for operand in operands]


def _map(operands: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _evaluate(operand, message) for key, operand in operands.items()}


_STRING_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}


def _call(operands: list[Any], message: Mapping[str, Any]) -> bool:
    subject, part = (_evaluate(operand, message) for operand in operands[1:])
    if not isinstance(subject, str) or not isinstance(part, str):
        found = describe_value(subject if not isinstance(subject, str) else part)
        raise EvaluationError(f"{operands[0]} expected a string, found {found}")
    return _STRING_TESTS[operands[0]](subject, part)


_FORMS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "literal": _literal,
    "path": _path,
    "has": _has,
    "eq": _equal,
    "ne": _unequal,
    "in": _in,
    "or": _or,
    "and": _and,
    "not": _not,
    "if": _if,
    "list": _list,
    "map": _map,
    "call": _call,
}
STRING_TESTS = tuple(_STRING_TESTS)
