"""Pages of a list, and their cursors: opaque to the caller, checked when they come back."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from millrace.model.errors import InvalidCursor, InvalidField
from millrace.model.values import dataclass

MAX_PAGE = 500
#: DynamoDB takes sort keys of up to 1,024 bytes; no list of ours has longer ones than this.
POSITION_CHARACTERS = 512
#: Items read at most for one page of a filtered list; the cursor goes on from there.
SCAN_LIMIT = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins."""

    items: tuple[T, ...]
    next: str | None  #: where to go on: the last sort key, or a list's cursor; None at the end


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


class Sorted(Protocol):
    """An item of a list in a table."""

    @property
    def sk(self) -> str: ...


S = TypeVar("S", bound=Sorted)


def filtered_page(
    scope: str,
    read: Callable[[str | None], Page[S]],
    keep: Callable[[S], bool],
    *,
    limit: int,
    cursor: str | None,
) -> Page[S]:
    """A page of the items that `keep` accepts. It may hold fewer than `limit` and still go on, when few match.

    `read` returns what comes after a sort key, or the beginning of the list for None.
    """
    check_page(limit)
    position = None if cursor is None else decode_cursor(scope, cursor, 1)[0]
    found: list[S] = []
    scanned = 0
    while True:
        page = read(position)
        scanned += len(page.items)
        for item in page.items:
            if keep(item):
                found.append(item)
            if len(found) == limit:
                return Page(tuple(found), encode_cursor(scope, item.sk))
        if page.next is None:
            return Page(tuple(found), None)
        if scanned >= SCAN_LIMIT:
            return Page(tuple(found), encode_cursor(scope, page.next))
        position = page.next
