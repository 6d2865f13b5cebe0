"""JSON from outside: read once, the same way everywhere, and bounded.

- UTF-8 only; no NaN, no Infinity, no number that overflows to one; integers are exact, up to Python's 4,300 digits.
- At most `MAX_VALUES` values, counted before anything is parsed: `[[[]]],` costs 40 times its size once it is lists, so
  that 6 MB would take what a function has for everybody's messages.
- At most `MAX_DEPTH` objects and lists inside each other, so that no later walk over a message can run out of stack.
- Of a repeated name the last one counts. What a sender signed with two values for one name is its own affair; what
  matters is that the ingress and the worker see the same one, and they do, because both read it here. A request to
  the API is nobody's signed document: there a name must not be repeated.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from millrace.model.errors import TooManyValues

MAX_DEPTH = 64
#: 15 bytes for each in the largest body; provider payloads spend about 20. At up to 200 bytes of memory each: 80 MB.
MAX_VALUES = 400_000
#: What a value costs in memory at most (an object with one member), and a byte of text (four, decoded, and twice held).
VALUE_COST, BYTE_COST = 200, 6
#: No body costs more than so many times its size: the worst found is 39, `[[[]]],`.
MAX_COST_RATIO = 40
_STRUCTURE = b",[{"
_CHUNK = 64 * 1024


def memory_cost(size: int) -> int:
    """The most memory that a body of so many bytes takes as JSON, parsed and as it came."""
    return min(MAX_COST_RATIO * size, VALUE_COST * MAX_VALUES + BYTE_COST * size)


def parse(data: bytes, *, names_once: bool = False) -> Any:
    """The value that these bytes spell.

    Raises ValueError, whose text says what is wrong and never quotes the data; TooManyValues, which is one, before
    anything was parsed.
    """
    demand_few_values(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    try:
        found = (_NAMES_ONCE if names_once else _DECODER).decode(text)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as exc:
        raise ValueError(f"not JSON at character {exc.pos}") from None
    _demand_shallow(found)
    return found


def demand_few_values(data: bytes) -> None:
    """Raises TooManyValues for JSON that would have more than MAX_VALUES values; parses nothing.

    Every value but a document's own follows a comma or an opening bracket, so their number is a bound. Those inside of
    strings are left out only where the bound is passed: counting takes 2 ms for a MB of JSON, that 10 ms.
    """
    if _structure(data) >= MAX_VALUES and _structure_outside_strings(data) >= MAX_VALUES:
        raise TooManyValues(MAX_VALUES)


def _structure(data: bytes) -> int:
    return sum(map(data.count, _STRUCTURE))


def _structure_outside_strings(data: bytes) -> int:
    """Up to where the data stops being JSON; what follows cannot be parsed either."""
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, inside = 0, False
    for start in range(0, len(bare), _CHUNK):
        parts = bare[start : start + _CHUNK].split(b'"')
        found += sum(map(_structure, parts[inside::2]))
        inside ^= len(parts) % 2 == 0
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


#: Made once: `json.loads` makes one for each call that is not of the plainest kind.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_NAMES_ONCE = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once)
