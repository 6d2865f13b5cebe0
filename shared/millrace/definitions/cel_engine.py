"""The CEL engine, for the expressions that need one.

It is `common-expression-language`, CEL in Rust. Its Python package imports a command line on the way (typer, rich,
prompt-toolkit); only the extension module beside it is loaded here, which takes a tenth of the time.

What it is shown is a *view*: the paths that the expression names, copied and counted, with typed times, durations
and bytes turned into values. The count bounds an evaluation: an extension cannot be interrupted, so what would be
too large is refused before it starts.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from millrace.definitions.expression import EvaluationError, Expression
from millrace.definitions.message_type import (
    BYTES,
    DURATION,
    INT,
    JSON,
    TIME,
    ListType,
    MapType,
    RecordType,
    Type,
    describe_value,
)
from millrace.definitions.spelling import (
    INT_MAX,
    INT_MIN,
    format_bytes,
    format_duration,
    format_time,
    parse_bytes,
    parse_duration,
    parse_time,
)

if TYPE_CHECKING:
    from cel import Program

#: Depth of a message that an evaluation may see; the engine and its conversions recurse.
MAX_DEPTH = 100
#: The weight of a message is the number of its values, plus their characters divided by this.
CHARACTERS_PER_WEIGHT = 64

#: What the compiler writes for `size`. The engine's own counts the bytes of a string, CEL counts code points; a
#: built-in function cannot be replaced under its name.
LENGTH = "millrace_length"


def evaluate(expression: Expression, message: Mapping[str, Any]) -> Any:
    """The value of an expression that has no form of its own. Raises EvaluationError only."""
    program = compiled(expression.cel)
    variables = _View(expression.max_weight).paths(message, expression.message_type, expression.uses)
    try:
        value = program.execute(engine().Context(variables, {LENGTH: _length}))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as exc:
        raise EvaluationError(_first_sentence(exc)) from exc
    return _as_json(value)


@lru_cache(maxsize=1)
def engine() -> ModuleType:
    """The extension module of the `cel` package, without the package's own imports."""
    loaded = sys.modules.get("cel.cel")
    if loaded is not None:
        return loaded
    package = importlib.util.find_spec("cel")
    places = package.submodule_search_locations if package else None
    found = importlib.machinery.PathFinder.find_spec("cel.cel", places) if places else None
    if found is None or found.loader is None:
        raise ModuleNotFoundError("This expression needs CEL: pip install common-expression-language.", name="cel")
    # It logs every function that refuses its argument; whoever evaluates reports that once, as ExpressionFailed.
    logging.getLogger("cel").setLevel(logging.ERROR)
    module = importlib.util.module_from_spec(found)
    sys.modules["cel.cel"] = module
    found.loader.exec_module(module)
    return module


@lru_cache(maxsize=512)
def compiled(text: str) -> Program:
    """The program of a text that the compiler has checked. Raises EvaluationError for one that does not parse."""
    try:
        program: Program = engine().compile(text)
    except ValueError as exc:
        raise EvaluationError(_first_sentence(exc)) from exc
    return program


class _View:
    """Copies what an expression may see, and stops at its weight limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0

    def paths(self, value: Any, kind: Type, paths: Sequence[tuple[str, ...]], depth: int = 0) -> Any:
        """The parts of an object that lie on these paths. What is not an object is shown whole, to fail as it must."""
        if not isinstance(value, Mapping) or any(not path for path in paths):
            return self.of(value, kind, depth)
        self._charge(1, depth)
        onward: dict[str, list[tuple[str, ...]]] = {}
        for first, *rest in paths:
            onward.setdefault(first, []).append(tuple(rest))
        return {
            name: self.paths(value[name], _type_below(kind, name), below, depth + 1)
            for name, below in onward.items()
            if name in value
        }

    def of(self, value: Any, kind: Type, depth: int) -> Any:
        match kind:
            case ListType() if isinstance(value, list):
                self._charge(1, depth)
                return [self.of(item, kind.item, depth + 1) for item in value]
            case MapType() if isinstance(value, Mapping):
                self._charge(1, depth)
                read_key = _int_key if kind.key == INT else _text
                return {read_key(key): self.of(item, kind.value, depth + 1) for key, item in value.items()}
            case RecordType() if isinstance(value, Mapping):
                self._charge(1, depth)
                return {_text(name): self.of(item, _type_below(kind, name), depth + 1) for name, item in value.items()}
        reader = _READERS.get(kind)
        if reader is not None and isinstance(value, str):
            self._charge(1 + len(value) // CHARACTERS_PER_WEIGHT, depth)
            return _read(reader, value)
        return self._plain(value, depth)

    def _plain(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            self._charge(1 + len(value) // CHARACTERS_PER_WEIGHT, depth)
            return _text(value)
        self._charge(1, depth)
        if isinstance(value, list):
            return [self._plain(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {_text(key): self._plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
            return math.copysign(math.inf, value) if value.bit_length() > 1000 else float(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        raise EvaluationError(f"{describe_value(value)} is not JSON")

    def _charge(self, weight: int, depth: int) -> None:
        self._weight += weight
        if self._weight > self._limit:
            raise EvaluationError("the message is too large for this expression")
        if depth > MAX_DEPTH:
            raise EvaluationError(f"the message is nested deeper than {MAX_DEPTH}")


_READERS: dict[Type, Callable[[str], Any]] = {TIME: parse_time, DURATION: parse_duration, BYTES: parse_bytes}


def _type_below(kind: Type, name: str) -> Type:
    match kind:
        case RecordType() if name in kind.fields:
            return kind.fields[name].type
        case MapType():
            return kind.value
    return JSON


def _read(reader: Callable[[str], Any], text: str) -> Any:
    try:
        return reader(text)
    except ValueError as exc:
        raise EvaluationError(str(exc)) from exc


def _text(value: object) -> str:
    """A string as UTF-8 can carry it: JSON may escape half a surrogate pair, the engine takes none."""
    if not isinstance(value, str):
        raise EvaluationError(f"{describe_value(value)} is not a key of JSON")
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _int_key(value: object) -> int:
    try:
        return int(_text(value)[:21])
    except ValueError as exc:
        raise EvaluationError("a key of the map is not an int") from exc


def _length(value: Any) -> int:
    if isinstance(value, str | bytes | list | Mapping):
        return len(value)
    raise TypeError(f"size expected a string, bytes, list or map, found {describe_value(value)}")


def _as_json(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise EvaluationError("the result is not a number that JSON can carry")
            return value
        case datetime():
            return format_time(value)
        case timedelta():
            return format_duration(value)
        case bytes():
            return format_bytes(value)
        case list():
            return [_as_json(item) for item in value]
        case Mapping():
            return {key if isinstance(key, str) else _key_text(key): _as_json(item) for key, item in value.items()}
    raise EvaluationError(f"the result is {describe_value(value)}, which is not JSON")


def _key_text(key: object) -> str:
    return {True: "true", False: "false"}[key] if isinstance(key, bool) else str(key)


def _first_sentence(exc: Exception) -> str:
    return str(exc).split("\n", 1)[0].split(". ", 1)[0].strip(" .'\"")[:200] or type(exc).__name__
