"""The one rule for JSON from outside."""

from __future__ import annotations

import tracemalloc

import pytest

from millrace.model.errors import TooManyValues
from millrace.model.strict_json import MAX_DEPTH, MAX_VALUES, memory_cost, parse


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "not UTF-8"),
        (b"{", "not JSON at character 1"),
        (b"NaN", "NaN is not JSON"),
        (b"[1e999]", "too large"),
        (b"[" * 65 + b"]" * 65, "64 deep"),
        (b"[" * 100_000, "64 deep"),
    ],
)
def test_what_is_refused_says_why(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(data)


def test_values_are_read_down_to_the_depth_that_is_allowed() -> None:
    assert parse(b'{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_of_a_repeated_name_the_last_counts_unless_names_come_once() -> None:
    twice = b'{"a": 1, "a": 2}'
    assert parse(twice) == {"a": 2}
    with pytest.raises(ValueError, match="a name twice"):
        parse(twice, names_once=True)
    assert parse(b'{"a": {"a": 1}}', names_once=True) == {"a": {"a": 1}}


PADDING = {
    "lists": b"[[[]]],",
    "empty lists": b"[],",
    "objects": b'{"":0},',
    "nested objects": b'{"":{"":{"":{}}}},',
    "mixed": b"[{}],",
    "numbers": b"1,",
}


@pytest.mark.parametrize("unit", PADDING.values(), ids=list(PADDING))
def test_too_many_values_are_refused_before_anything_is_parsed(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these takes up to 40 times its size once it is parsed: 6 MB took 274 MB."""
    monkeypatch.setattr("json.loads", lambda *_given, **_named: pytest.fail("it was parsed"))
    with pytest.raises(TooManyValues):
        parse(b"[" + unit * (6_000_000 // len(unit)) + b"0]")


def test_a_text_full_of_brackets_and_commas_is_one_value() -> None:
    text = ',[{\\"\\\\' * 500_000
    assert parse(f'{{"a": "{text}", "b": [1]}}'.encode())["b"] == [1]


@pytest.mark.parametrize("offset", range(3))
def test_values_between_texts_are_counted_wherever_a_chunk_ends(offset: int) -> None:
    """Texts that hold quotes, ends of escapes and brackets, cut at every place by the counting's chunks."""
    units = (b'"a\\"[",', b'"\\\\",', b"[],")
    body = b" " * offset + b"[" + b"".join(units) * (MAX_VALUES // 5) + b"0]"
    assert len(parse(body)) == 3 * (MAX_VALUES // 5) + 1
    with pytest.raises(TooManyValues):
        parse(body[:-1] + b",0" * (MAX_VALUES // 4) + b"]")


def test_no_unbalanced_quote_hides_values_from_the_count() -> None:
    """What follows a fault is not counted, and not parsed either: the fault ends both."""
    hidden = b'[0,"' + b"[]," * MAX_VALUES
    with pytest.raises(ValueError, match="not JSON"):
        parse(hidden)
    with pytest.raises(TooManyValues):
        parse(b"[" + b"[]," * MAX_VALUES + b'"')


@pytest.mark.parametrize("unit", PADDING.values(), ids=list(PADDING))
def test_a_body_takes_no_more_memory_than_its_cost_says(unit: bytes) -> None:
    body = b"[" + unit * (200_000 // len(unit)) + b"0]"
    tracemalloc.start()
    try:
        parse(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= memory_cost(len(body))


def test_the_cost_of_the_largest_body_is_bounded_by_its_values() -> None:
    assert memory_cost(6_000_000) == 200 * MAX_VALUES + 6 * 6_000_000 < 40 * 6_000_000
