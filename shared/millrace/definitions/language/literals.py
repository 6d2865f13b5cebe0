"""Values of literal tokens, by the rules of CEL."""

from __future__ import annotations

import re

from millrace.definitions.spelling import INT_MAX

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|X[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.S)
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip


def read_string(token: str) -> str:
    """The text of a string token; ValueError names an escape that CEL does not know."""
    if token[0] in "rR":
        return token[2:-1]
    return _ESCAPE.sub(_unescape, token[1:-1])


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    if len(escape) == 1:
        raise ValueError(f"\\{escape} is no escape; for the character itself write \\\\{escape}")
    code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"\\{escape} is no character")
    return chr(code)


def read_bytes(token: str) -> bytes:
    """The bytes of a `b"…"` token: escapes of two digits and octals are bytes, other characters are UTF-8."""
    text = token[1:]
    if text[0] in "rR":
        return text[2:-1].encode()
    pieces, last = [], 1
    for match in _ESCAPE.finditer(text, 1, len(text) - 1):
        pieces.append(text[last : match.start()].encode())
        byte_escape = match[1][0] in "xX0123" and len(match[1]) == 3
        pieces.append(_unescape(match).encode("latin-1" if byte_escape else "utf-8"))
        last = match.end()
    pieces.append(text[last:-1].encode())
    return b"".join(pieces)


def read_int(token: str) -> int:
    """The value of an int token, sign excluded; ValueError beyond 64 bits."""
    if token[-1] in "uU":
        raise ValueError(f"unsigned numbers are not used here; write {token[:-1]}")
    digits = token[2:] if token[:2] in ("0x", "0X") else token
    value = int(digits, 16 if digits is not token else 10) if len(digits) < 40 else INT_MAX + 2
    if value > INT_MAX + 1:
        raise ValueError(f"an int is at most {INT_MAX}")
    return value
