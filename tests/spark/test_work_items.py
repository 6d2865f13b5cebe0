"""Work items that wait for each other, and what a work item's file may say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.items.fields import MAX_ID, cycles_of
from millrace.spark.work_items import read_item_batches


def reachable(needs: Mapping[str, list[str]], start: str) -> set[str]:
    """Everything that `start` needs, directly or through others."""
    found: set[str] = set()
    open_ = list(needs.get(start, ()))
    while open_:
        item = open_.pop()
        if item not in found:
            found.add(item)
            open_ += needs.get(item, ())
    return found


def cycles_by_hand(needs: Mapping[str, list[str]]) -> list[list[str]]:
    """Items that need themselves in the end, with all that need them and are needed by them."""
    reach = {item: reachable(needs, item) for item in needs}
    groups = {
        tuple(sorted(i for i in reach[item] if item in reach.get(i, ()))) for item in needs if item in reach[item]
    }
    return sorted(map(list, groups))


graphs = st.integers(1, 9).flatmap(
    lambda size: st.dictionaries(
        st.sampled_from("abcdefghi"[:size]), st.lists(st.sampled_from("abcdefghixy"), max_size=3), max_size=size
    )
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(graphs)
def test_the_cycles_are_those_that_a_search_by_hand_finds(needs: dict[str, list[str]]) -> None:
    assert cycles_of(needs) == cycles_by_hand(needs)


@pytest.mark.parametrize(
    ("needs", "cycles"),
    [
        ({}, []),
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"]}, [["a"]]),
        ({"b": ["a"], "a": ["b"]}, [["a", "b"]]),
        ({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"]}, [["a", "b", "c"], ["d", "e"]]),
        ({"a": ["b", "b"], "b": ["nowhere"]}, []),
        ({"d": ["a"], "a": ["b"], "b": ["a"], "c": ["b"]}, [["a", "b"]]),
    ],
)
def test_small_cases(needs: dict[str, list[str]], cycles: list[list[str]]) -> None:
    assert cycles_of(needs) == cycles


@pytest.mark.parametrize(("size", "closed"), [(2_000, False), (100_000, True)])
def test_a_chain_of_a_hundred_thousand_does_not_use_up_the_stack(size: int, closed: bool) -> None:
    needs = {f"{n:06d}": [f"{n + 1:06d}"] for n in range(size - 1)}
    needs[f"{size - 1:06d}"] = ["000000"] if closed else []
    assert [len(cycle) for cycle in cycles_of(needs)] == ([size] if closed else [])


# -- the fields of an item -------------------------------------------------------------------------------------------


def item(fields: Any = None, **given: Any) -> dict[str, Any]:
    value = None if fields is None else json.dumps(fields)
    row = {"path": "a.md", "raw": b"raw", "value": value, "problem": None} | given
    schema = pa.schema([(name, pa.binary() if name == "raw" else pa.string()) for name in row])
    (batch,) = read_item_batches([pa.RecordBatch.from_pylist([row], schema=schema)])
    (found,) = batch.to_pylist()
    return dict(found)


def test_the_fields_of_an_item() -> None:
    fields = {
        "id": " a-1 ",
        "status": "pending",
        "depends_on": ["b", 7, "b"],
        "priority": 5,
        "labels": ["x"],
        "project": "p",
    }
    found = item(fields)
    assert found == {
        "path": "a.md",
        "raw": b"raw",
        "value": json.dumps(fields),
        "id": "a-1",
        "status": "pending",
        "depends_on": ["b", "7"],
        "idempotency_key": "a-1",
        "priority": "5",
        "project": "p",
        "labels": '["x"]',
        "problem": None,
    }


def test_what_an_item_does_not_say() -> None:
    found = item({"id": 1, "status": "done", "depends_on": None, "labels": None})
    assert (found["id"], found["depends_on"]) == ("1", [])
    assert (found["priority"], found["project"], found["labels"]) == (None, None, None)
    assert item({"id": "a", "status": "done", "depends_on": "b", "labels": "x"})["depends_on"] == ["b"]


def test_another_revision_is_another_message() -> None:
    keys = [
        item({"id": "a", "status": "pending", "revision": revision})["idempotency_key"] for revision in (None, 1, 2)
    ]
    assert keys == ["a", "a@1", "a@2"]
    assert "id: " in item({"id": "a@1", "status": "pending"})["problem"], "its message would be that of `a`, revision 1"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "pending"},
        {"id": "", "status": "pending"},
        {"id": "  ", "status": "pending"},
        {"id": None, "status": "pending"},
        {"id": True, "status": "pending"},
        {"id": 1.5, "status": "pending"},
        {"id": ["a"], "status": "pending"},
        {"id": "a" * (MAX_ID + 1), "status": "pending"},
        {"id": "a"},
        {"id": "a", "status": {"is": "pending"}},
        {"id": "a", "status": "pending", "depends_on": [["b"]]},
        {"id": "a", "status": "pending", "depends_on": [""]},
        {"id": "a", "status": "pending", "depends_on": {"b": 1}},
        {"id": "a", "status": "pending", "labels": [None]},
        {"id": "a", "status": "pending", "priority": 1.5},
        {"id": "a", "status": "pending", "project": ["p"]},
        {"id": "a", "status": "pending", "revision": []},
    ],
    ids=str,
)
def test_an_item_with_a_bad_field_is_malformed_and_says_which(fields: dict[str, Any]) -> None:
    found = item(fields)
    assert found["problem"].startswith("invalid_message: ")
    assert (found["id"], found["path"], found["raw"]) == (None, "a.md", b"raw")


def test_a_file_that_could_not_be_read_stays_as_it_is() -> None:
    found = item(problem="invalid_message: the file is not UTF-8")
    assert (found["problem"], found["id"], found["raw"]) == ("invalid_message: the file is not UTF-8", None, b"raw")
