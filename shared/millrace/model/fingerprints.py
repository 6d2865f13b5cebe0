"""Errors that are the same but for their details: a text without ids, numbers and quoted values, and its name.

Nothing of it is stored. It is computed from the error wherever it is asked for, so it costs no write and no byte, and
a dead letter from before a change of these rules falls into the same group as one from after it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

#: What a detail is replaced by.
DETAIL = "…"
#: Of an error this much is looked at, and this much of its pattern counts.
READ_CHARACTERS, PATTERN_CHARACTERS = 1_000, 200
_QUOTED = re.compile(r"""(?<!\w)(?:"[^"]*"|'[^']*'|`[^`]*`)(?!\w)""")
#: 404 and 503 are different errors: a number that is called a status stays.
_STATUS = re.compile(r"\b(status|code|http|answered)([ :=]{0,3})([1-5]\d\d)\b", re.IGNORECASE)
#: A number, or an id: anything with a digit in it, and long runs of hex digits without one.
_DETAIL = re.compile(r"[\w-]*\d[\w-]*|\b[a-f]{8,}\b", re.IGNORECASE)
_ROW_OF_DETAILS = re.compile(rf"{DETAIL}(?:[\s.,:;/+_-]*{DETAIL})+")


@lru_cache(maxsize=2_048)
def error_pattern(error: str) -> str:
    """The error's text with `…` for everything that differs from one message to the next."""
    text = _QUOTED.sub(DETAIL, " ".join(error[:READ_CHARACTERS].split()))
    pieces: list[str] = []
    start = 0
    for status in _STATUS.finditer(text):
        pieces += [_without_details(text[start : status.start()]), status[0]]
        start = status.end()
    pieces.append(_without_details(text[start:]))
    return "".join(pieces)[:PATTERN_CHARACTERS]


def _without_details(text: str) -> str:
    return _ROW_OF_DETAILS.sub(DETAIL, _DETAIL.sub(DETAIL, text))


@lru_cache(maxsize=2_048)
def fingerprint(error_type: str, error: str) -> str:
    """The name of a group of errors: 64 bits of SHA-256 over the type and the pattern, in hex."""
    return sha256(f"{error_type}\0{error_pattern(error)}".encode()).hexdigest()[:16]
