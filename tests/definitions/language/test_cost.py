"""Hostile expressions and hostile messages: an evaluation ends soon, runs nothing and reads only its message."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.definitions.cel_engine import MAX_DEPTH
from millrace.definitions.message_type import JSON, Field, RecordType
from millrace.model.errors import ExpressionFailed
from tests.definitions.writing import expression, fuzz, lowered, messages, queue_text

#: Ten times what the compiler aims at, so that a busy machine does not decide.
SECONDS = 10


def failure(text: str, payload: Any) -> str:
    with pytest.raises(ExpressionFailed) as caught:
        expression(text).evaluate({"payload": payload, "headers": {}})
    return str(caught.value)


def findings(text: str) -> list[str]:
    return messages(queue_text(f"map_to: command A.B {{ value: {text} }}"))


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("payload.items.map(item, item + 1)", {"items": [1] * 500_000}),
        ("payload.items.filter(item, item > 0).map(item, item)", {"items": [1] * 500_000}),
        ("payload.items.all(item, !(item in payload.others))", {"items": list(range(9_000)), "others": [-1] * 9_000}),
        ("payload.items.map(item, payload.others)", {"items": [1] * 2_000, "others": [1] * 2_000}),
        ("payload.text.matches('^(a|aa)+$')", {"text": "a" * 40_000_000}),
        ("payload.text + payload.text == payload.text", {"text": "a" * 40_000_000}),
        ("size(payload.items) > 5", {"items": [[]] * 3_000_000}),
    ],
)
def test_a_large_message_ends_an_evaluation_soon(text: str, payload: Any) -> None:
    compiled = expression(text)
    started = time.process_time()
    with pytest.raises(ExpressionFailed, match="too large"):
        compiled.evaluate({"payload": payload, "headers": {}})
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "payload.items.map(item, item + 1)",
        "payload.items.filter(item, item > 0).filter(item, item > 0).map(item, [item, item])",
        "payload.items.all(item, size(string(item)) > 0)",
        "payload.items.all(item, !(item in payload.items.filter(other, other < 0)))",
        "payload.items.map(item, payload.items)",
        "payload.items + payload.items == payload.items + payload.items",
    ],
)
def test_the_largest_message_that_is_let_in_is_done_soon(text: str) -> None:
    if "filter(other" in text:
        assert "inside the body" in findings(text)[0]
        return
    compiled = expression(text)
    size = compiled.max_weight - 4
    started = time.process_time()
    compiled.evaluate({"payload": {"items": [1] * size}, "headers": {}})
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("payload.a.map(x, payload.b.map(y, x + y))", "inside the body of another"),
        ("payload.l" + ".map(x, [x, x])" * 12, "could run for minutes"),
        (" + ".join(["payload.a"] * 120), "nested deeper than 32"),
        ("[" + ", ".join(["payload.a"] * 250) + "]", "more than 200 parts"),
        ("(" * 400 + "payload.a" + ")" * 400 + " == '" + "x" * 3000 + "'", "more than 2000 characters"),
        ("!" * 500 + "payload.a", "nested deeper than 32"),
        ("[" * 500 + "]" * 500, "nested deeper than 32"),
        ("payload" + ".a" * 500, "nested deeper than 32"),
        ("true ? 1 : " * 500 + "1", "nested deeper than 32"),
        (r"payload.s.matches(r'(\w{20}){20}')", "too many classes"),
        (r"payload.s.matches('(a{100}){100}')", "repeats too much"),
        (r"payload.l.exists(s, s.matches(r'\w+'))", "too many classes"),
        ("payload.s.matches(payload.pattern)", "so that no message can choose it"),
        ("payload.s.matches('(')", "not a regular expression"),
    ],
)
def test_an_expression_that_could_run_away_is_refused_when_compiled(text: str, says: str) -> None:
    assert any(says in found for found in findings(text))


def nested(depth: int) -> Any:
    value: Any = 1
    for index in range(depth):
        value = [value] if index % 2 else {"a": value}
    return value


def test_a_deeply_nested_message_is_refused_by_the_engine_and_walked_by_no_form() -> None:
    assert "deeper" in failure("size(payload.deep)", {"deep": nested(50_000)})
    assert "deeper" in failure("payload.deep == payload.deep", {"deep": nested(MAX_DEPTH + 1)})
    deep = {"payload": {"deep": nested(50_000), "id": 7}, "headers": {}}
    assert expression("payload.id").evaluate(deep) == 7
    assert expression('payload.deep == "x"').evaluate(deep) is False
    assert expression("payload.id + 1").evaluate(deep) == 8


def test_the_engine_sees_only_the_paths_that_an_expression_names() -> None:
    compiled = expression("payload.order.id + 1")
    assert compiled.uses == (("payload", "order", "id"),)
    message = {"payload": {"order": {"id": 1, "unseen": object()}, "also": object()}, "headers": object()}
    assert compiled.evaluate(message) == 2


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "payload.__class__.__mro__", "env.HOME", "open('/etc/passwd')", "eval('1')", "globals()",
     "millrace_length(payload)", "now()", "string.format(payload)"],
)  # fmt: skip
def test_nothing_but_the_message_can_be_named(text: str) -> None:
    if text.startswith("payload."):
        assert "no field '__class__'" in failure(text, {"id": 1})
    else:
        assert findings(text)


words = st.sampled_from(
    ["payload", "other", "x", ".a", ".size()", ".map(x, ", ".all(x, ", "size(", ")", "[", "]", "0", "1.5", '"s"', " + ",
     " - ", " == ", " && ", " || ", " ? ", " : ", "!", "-", " in ", "null", "true", ",", "{", "}", "has(", "string(",
     ".matches('a+')", "timestamp(", " / ", " % ", "9223372036854775807", "b'a'", "duration('1s')"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@fuzz(150)
@given(st.lists(words, max_size=12).map("".join), values)
def test_any_expression_on_any_message_gives_a_value_or_a_refusal(text: str, value: Any) -> None:
    compiled = lowered(f"({text})", RecordType({"payload": Field(JSON), "other": Field(JSON)}))
    if compiled is None:
        return
    with suppress(ExpressionFailed):
        compiled.evaluate({"payload": value, "other": [value]})
