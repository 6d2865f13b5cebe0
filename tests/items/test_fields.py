"""A work item's fields, checked by one rule for everybody."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.items.fields import MAX_ID, ItemFields, cycles_of, item_fields


def test_all_fields() -> None:
    given = {
        "id": 7, "status": " pending ", "depends_on": ["a", 3, "a"], "revision": 2, "priority": 70, "project": "p",
        "labels": "one", "text": "…",
    }  # fmt: skip
    assert item_fields(given) == ItemFields("7", "pending", ("a", "3"), "2", "70", "p", ("one",))
    assert item_fields(given).idempotency_key == "7@2"
    assert item_fields({"id": "x", "status": "done"}) == ItemFields("x", "done")
    assert item_fields({"id": "x", "status": "done", "labels": []}).labels == ()


@pytest.mark.parametrize(
    "given",
    [
        {"status": "pending"},
        {"id": "x"},
        {"id": "", "status": "pending"},
        {"id": "a@b", "status": "pending"},
        {"id": True, "status": "pending"},
        {"id": "x" * (MAX_ID + 1), "status": "pending"},
        {"id": "x", "status": "pending", "depends_on": [{}]},
        {"id": "x", "status": "pending", "labels": [None]},
        {"id": "x", "status": "pending", "priority": [1]},
    ],
    ids=str,
)
def test_what_is_wrong_is_said(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        item_fields(given)


def test_cycles() -> None:
    assert cycles_of({"a": ["b"], "b": ["a"], "c": ["c"], "d": ["a"]}) == [["a", "b"], ["c"]]
