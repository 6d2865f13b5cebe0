"""Pages and cursors: opaque, good for one list, and going on where few match."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from millrace.model.cursor import SCAN_LIMIT, Page, decode_cursor, encode_cursor, filtered_page
from millrace.model.errors import InvalidCursor, InvalidField


@dataclass(frozen=True)
class Row:
    sk: str


ROWS = [Row(f"{number:05d}") for number in range(2_500)]


def read(position: str | None) -> Page[Row]:
    rest = [row for row in ROWS if position is None or row.sk > position][:100]
    return Page(tuple(rest), rest[-1].sk if rest and rest[-1] != ROWS[-1] else None)


def test_a_cursor_comes_back_as_it_went() -> None:
    assert decode_cursor("list", encode_cursor("list", "a", "b"), 2) == ["a", "b"]


@pytest.mark.parametrize(
    "cursor", [encode_cursor("other", "a"), encode_cursor("list", "a", "b"), encode_cursor("list", "\n"), "%", ""]
)
def test_a_cursor_that_this_list_did_not_hand_out_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        decode_cursor("list", cursor, 1)


def test_pages_of_a_filtered_list_hold_each_match_once() -> None:
    found: list[Row] = []
    cursor = None
    while True:
        page = filtered_page("list", read, lambda row: row.sk.endswith("7"), limit=30, cursor=cursor)
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    assert found == [row for row in ROWS if row.sk.endswith("7")]


def test_a_page_ends_after_so_many_reads_though_nothing_matches() -> None:
    page = filtered_page("list", read, lambda _row: False, limit=30, cursor=None)
    assert page.items == ()
    assert page.next is not None
    assert decode_cursor("list", page.next, 1) == [ROWS[SCAN_LIMIT - 1].sk]


@pytest.mark.parametrize("limit", [0, 501])
def test_a_page_size_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(InvalidField):
        filtered_page("list", read, lambda _row: True, limit=limit, cursor=None)
