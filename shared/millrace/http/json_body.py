"""JSON as requests carry it, read strictly."""

from __future__ import annotations

import json
import math
from typing import Any

from millrace.model.errors import InvalidRequest

#: A JSON document nested deeper than this is refused before it can exhaust the stack of whoever reads it next.
MAX_DEPTH = 200


def parse_json(data: bytes) -> Any:
    """JSON as RFC 8259 has it: UTF-8, no NaN, no number that overflows, no duplicate member, no lone surrogate, and no
    bottomless nesting. Raises InvalidRequest."""
    try:
        text = data.decode("utf-8")
        found = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_members)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise InvalidRequest("The body is not JSON: RFC 8259, UTF-8, no member twice.") from exc
    if _deeper_than(found, MAX_DEPTH):
        raise InvalidRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
    return found


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """A number that overflows would be written back as Infinity, which is no JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number too large for a float")
    return number
