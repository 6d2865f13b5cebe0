"""What is kept of a handler's result."""

from __future__ import annotations

import json
from typing import Any

#: Of a result this much is kept for repeats of its idempotency key; a larger one is done all the same.
RESULT_BYTES = 64 * 1024


def result_bytes(result: Any) -> bytes:
    """A handler's result as bytes, none where it is too large. Raises TypeError for what JSON cannot spell."""
    match result:
        case None:
            data = b""
        case bytes():
            data = result
        case _:
            data = json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode()
    return data if len(data) <= RESULT_BYTES else b""
