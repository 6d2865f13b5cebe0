"""JSON as requests carry it: read by the one rule, with no name twice."""

from __future__ import annotations

import json
from typing import Any

from millrace.model.errors import InvalidRequest, TooManyValues
from millrace.model.strict_json import MAX_DEPTH, parse


def parse_json(data: bytes) -> Any:
    """What `strict_json` reads, where also no member comes twice and no surrogate alone.

    Raises InvalidRequest; TooManyValues, which is one, before anything was parsed.
    """
    try:
        found = parse(data, names_once=True)
        json.dumps(found, ensure_ascii=False).encode()
    except TooManyValues:
        raise
    except ValueError as exc:
        raise InvalidRequest(
            f"The body is not JSON: RFC 8259, UTF-8, no member twice, at most {MAX_DEPTH} levels."
        ) from exc
    return found
