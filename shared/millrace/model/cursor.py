"""Pages of a list, and their cursors: opaque to the caller, checked when they come back."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Generic, TypeVar

from millrace.model.errors import InvalidCursor, InvalidField

MAX_PAGE = 500
#: DynamoDB takes sort keys of up to 1,024 bytes; no list of ours has longer ones than this.
POSITION_CHARACTERS = 512

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A stretch of a list, and where the next one begins."""

    items: tuple[T, ...]
    next: str | None  #: sort key after which to go on; None at the end


def encode_cursor(scope: str, *position: str) -> str:
    """A cursor good for one list (`scope`) only."""
    return urlsafe_b64encode(json.dumps([scope, *position]).encode()).rstrip(b"=").decode()


def decode_cursor(scope: str, cursor: str, parts: int) -> list[str]:
    """The position that `encode_cursor` was given. Raises InvalidCursor for anything else."""
    try:
        found: list[str] = json.loads(urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidCursor from None
    fits = isinstance(found, list) and len(found) == parts + 1 and all(isinstance(part, str) for part in found)
    if not fits or found[0] != scope or not all(map(_is_position, found[1:])):
        raise InvalidCursor
    return found[1:]


def _is_position(part: str) -> bool:
    """Something that may be (part of) a sort key: a table asked for anything else fails instead of answering."""
    return 1 <= len(part) <= POSITION_CHARACTERS and part.isascii() and part.isprintable()


def check_page(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidField("limit", f"{limit} is out of range", f"1 to {MAX_PAGE}")
