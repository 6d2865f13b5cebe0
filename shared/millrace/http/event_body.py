"""The body of an HTTP request as Lambda is handed it, and how large it may be.

A synchronous invocation carries 6 MiB, counted as the event is encoded: bytes as base64, text as a JSON string. What
lies beyond never reaches a function, and API Gateway answers in its own words. So the limit here is a little lower:
up to it a request always arrives, and what is refused just above it is refused by us.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from millrace.model.errors import InvalidRequest, RequestTooLarge

#: Of a body, encoded. The rest of the 6 MiB is for headers (10 KB, which an event repeats), path, query and context.
MAX_ENCODED_BYTES = 6_000_000
#: So many bytes always fit; text whose escapes add less than a third may be larger.
MAX_BINARY_BYTES = MAX_ENCODED_BYTES // 4 * 3
_DOUBLED = b'"\\\b\f\n\r\t'
_CONTROLS = bytes(code for code in range(32) if code not in _DOUBLED)


def body_of(body: Any, *, encoded: bool) -> bytes:
    """The exact bytes received, of an event's `body`. What is over the limit is refused before any of it is decoded.

    Raises RequestTooLarge, or InvalidRequest for what is no text, or no base64 where it is said to be.
    """
    text = body or ""
    if not isinstance(text, str):
        raise InvalidRequest("The body of the event is no text.")
    if len(text) > MAX_ENCODED_BYTES:
        raise RequestTooLarge(MAX_ENCODED_BYTES, MAX_BINARY_BYTES)
    if encoded:
        return _decoded(text)
    # Half a surrogate pair is nothing that anybody signs; it must not be a crash either.
    data = text.encode("utf-8", "surrogatepass")
    if encoded_size(data) > MAX_ENCODED_BYTES:
        raise RequestTooLarge(MAX_ENCODED_BYTES, MAX_BINARY_BYTES)
    return data


def encoded_size(text: bytes) -> int:
    """The bytes that a text (UTF-8) takes inside a JSON string: a quote, a backslash or a line end takes two."""
    doubled = len(text) - len(text.translate(None, _DOUBLED))
    controls = len(text) - len(text.translate(None, _CONTROLS))
    return len(text) + doubled + 5 * controls


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("The body is not the base64 that it is said to be.") from None
