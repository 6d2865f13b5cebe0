"""Messages against their types: what is refused, where, and what was expected there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.definitions.message_type import MAX_PROBLEMS, RecordType, read_message_type, read_type
from tests.definitions.writing import QUIET, fuzz, loaded


def message_type(fields: str) -> RecordType:
    found = loaded(f"app T {{ queue Q {{ message_type {{ {fields} }} {QUIET} }} }}").queue("Q").message_type
    assert found is not None
    return found


def problems(fields: str, value: object) -> list[str]:
    return [str(problem) for problem in message_type(fields).validate(value)]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("string", "text", 5),
        ("int", 5, 5.0),
        ("int", -(2**63), 2**63),
        ("int", 5, True),
        ("float", 5, "5"),
        ("float", 5.5, True),
        ("bool", False, 0),
        ("time", "2026-11-16T09:30:00.25+01:00", "2026-11-16T09:30:00"),
        ("time", "2026-11-16T09:30:00Z", "2026-13-16T09:30:00Z"),
        ("time", "2026-11-16t09:30:00z", 1_800_000_000),
        ("duration", "1h30m", "1 hour"),
        ("duration", "-1.5s", "90"),
        ("bytes", "aGk=", "aGk"),
        ("bytes", "", "é"),
        ("list<int>", [1, 2], {"0": 1}),
        ("map<string, int>", {"a": 1}, [1]),
        ('enum("low", "high")', "low", "middle"),
        ("{ id: string }", {"id": "x"}, "x"),
    ],
)
def test_a_type_takes_its_own_values_and_no_others(kind: str, right: object, wrong: object) -> None:
    field = f"value: {kind}"
    assert problems(field, {"value": right}) == []
    (problem,) = problems(field, {"value": wrong})
    assert problem.startswith("value: expected ")


def test_a_problem_names_its_path_and_the_expected_type() -> None:
    fields = 'order: { lines: list<{ sku: string  count: int }>  tags: map<string, enum("a", "b")> }'
    value = {"order": {"lines": [{"sku": "x", "count": 1}, {"sku": 7}], "tags": {"first tag": "c"}}}
    assert problems(fields, value) == [
        "order.lines[1].sku: expected a string, found an int",
        "order.lines[1].count: expected an int, found nothing",
        'order.tags["first tag"]: expected one of "a", "b", found "c"',
    ]


def test_an_optional_field_may_be_absent_or_null_but_not_wrong() -> None:
    assert problems("note?: string", {}) == []
    assert problems("note?: string", {"note": None}) == []
    assert problems("note?: string", {"note": 5}) == ["note: expected a string, found an int"]
    assert problems("note: string", {"note": None}) == ["note: expected a string, found null"]


def test_an_unknown_field_is_a_problem_of_the_message_but_not_of_a_payload() -> None:
    fields = "payload: { id: string }  note?: string"
    assert problems(fields, {"payload": {"id": "x", "added_by_provider": 1}}) == []
    assert problems(fields, {"payload": {"id": "x"}, "nite": "y"}) == [
        "nite: expected only payload, note, found an unknown field"
    ]


def test_a_map_with_int_keys_is_spelt_with_strings() -> None:
    assert problems("by_id: map<int, bool>", {"by_id": {"-17": True}}) == []
    assert problems("by_id: map<int, bool>", {"by_id": {"x": True}}) == [
        'by_id["x"]: expected a key that is an int, found a string'
    ]


def test_problems_are_few_however_wrong_the_message_is() -> None:
    assert len(message_type("items: list<int>").validate({"items": ["x"] * 100_000})) == MAX_PROBLEMS


def test_problems_never_quote_what_a_field_held() -> None:
    found = problems("card: int  plan: bool", {"card": "4111 1111 1111 1111", "plan": {"secret": "s3cret"}})
    assert len(found) == 2
    assert not any("4111" in problem or "s3cret" in problem for problem in found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
types = st.recursive(
    st.sampled_from(["string", "int", "float", "bool", "time", "duration", "bytes", "json", {"enum": ["a", "b"]}]),
    lambda inner: (
        st.builds(lambda item: {"list": item}, inner)
        | st.builds(lambda value: {"map": ["string", value]}, inner)
        | st.builds(lambda a, b: {"record": {"a": a, "b": b}, "optional": ["b"]}, inner, inner)
    ),
    max_leaves=6,
)


@fuzz(100)
@given(types, json_values)
def test_any_value_against_any_type_gives_a_list_of_problems(written: object, value: object) -> None:
    record = read_message_type({"record": {"field": written}})
    assert record.written() == {"record": {"field": written}}
    found = record.validate({"field": value})
    assert all(problem.path.startswith("field") and problem.expected and problem.found for problem in found)


@fuzz(100)
@given(types)
def test_a_type_is_read_back_as_it_was_written(written: object) -> None:
    assert read_type(written).written() == written
