"""JSON from outside: read once, the same way everywhere, and bounded.

- UTF-8 only; no NaN, no Infinity, no number that overflows to one; integers are exact, up to Python's 4,300 digits.
- At most `MAX_DEPTH` objects and lists inside each other, so that no later walk over a message can run out of stack.
- Of a repeated name the last one counts. What a sender signed with two values for one name is its own affair; what
  matters is that the ingress and the worker see the same one, and they do, because both read it here. A request to
  the API is nobody's signed document: there a name must not be repeated.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_DEPTH = 64


def parse(data: bytes, *, names_once: bool = False) -> Any:
    """The value that these bytes spell. Raises ValueError, whose text says what is wrong and never quotes the data."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    try:
        members = _once if names_once else None
        found = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=members)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as exc:
        raise ValueError(f"not JSON at character {exc.pos}") from None
    _demand_shallow(found)
    return found


def _demand_shallow(found: Any) -> None:
    level = [found] if isinstance(found, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number too large for a float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name twice")
    return members
