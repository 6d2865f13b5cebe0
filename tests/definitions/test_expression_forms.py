"""Forms, which the library evaluates itself, against the CEL engine: the same answers for every message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.definitions.expression import Expression
from millrace.definitions.message_type import JSON, STRING, Field, MapType, RecordType
from millrace.model.errors import ExpressionFailed
from tests.definitions.writing import expression, fuzz, lowered, written_expression

DYNAMIC = RecordType({"a": Field(JSON), "b": Field(JSON), "headers": Field(MapType(STRING, JSON))})
ALL = tuple((name,) for name in DYNAMIC.fields)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, -1.5, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 2.0**53])
    | st.sampled_from(["", "x", "ab", "é", "high", "a"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x y"]), inner, max_size=3),
    max_leaves=8,
)
messages = st.fixed_dictionaries({"a": values, "b": values, "headers": st.dictionaries(st.sampled_from("ab"), values)})

names = st.sampled_from(["a", "b", "headers"])
steps = st.sampled_from([".a", ".b", '["x y"]', '["a"]', "[0]", "[1]"])
paths = st.builds(lambda name, tail: name + "".join(tail), names, st.lists(steps, max_size=3))
literals = st.sampled_from(
    ["null", "true", "false", "0", "1", "-1", "1.0", "-1.5", "9223372036854775807", "9007199254740993", '"x"', "'é'",
     '"high"', '""', "9007199254740992.0", '"\\u00e9"', "r'a'"]
)  # fmt: skip
selections = st.builds(lambda path, field: f"{path}.{field}", paths, st.sampled_from(["a", "b"]))


string_tests = st.sampled_from(["startsWith", "endsWith", "contains"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.builds(lambda op, parts: "(" + f" {op} ".join(parts) + ")", st.sampled_from(["&&", "||"]),
                       st.lists(inner, min_size=2, max_size=3))  # fmt: skip
    return (
        joined
        | st.builds(lambda a, b, c: f"({a} ? {b} : {c})", inner, inner, inner)
        | st.builds(lambda a: f"!({a})", inner)
        | st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["==", "!="]), literals)
        | st.builds(lambda a, op, b: f"({b} {op} {a})", inner, st.sampled_from(["==", "!="]), literals)
        | st.builds(lambda a, items: f"({a} in [{', '.join(items)}])", inner, st.lists(literals, max_size=3))
        | st.builds(lambda a, f, b: f"{a}.{f}({b})", paths, string_tests, inner)
        | st.builds(lambda items: f"[{', '.join(items)}]", st.lists(inner, max_size=2))
        | st.builds(lambda a: f'{{"k": {a}}}', inner)
    )  # fmt: skip


expressions = st.recursive(
    paths | literals | st.builds(lambda selection: f"has({selection})", selections), _compound, max_leaves=6
)


def outcome(compiled: Expression, message: dict[str, Any]) -> Any:
    try:
        return _comparable(compiled.evaluate(message))
    except ExpressionFailed:
        return "failed"


def _comparable(value: Any) -> Any:
    """With types, since True == 1 == 1.0; an int beyond 64 bits is a float for the engine, as it is for JSON in CEL."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return ("float", float(value))
    return type(value).__name__, value


@fuzz(200)
@given(expressions, messages)
@example("a[-1]", {"a": [1], "b": None, "headers": {}})
@example("a == 1", {"a": True, "b": None, "headers": {}})
@example("(a || b)", {"a": 3, "b": True, "headers": {}})
@example("(a && b)", {"a": 3, "b": False, "headers": {}})
@example("(a == 9007199254740993)", {"a": 2.0**53, "b": None, "headers": {}})
def test_a_form_answers_as_the_cel_engine_does(text: str, message: dict[str, Any]) -> None:
    compiled = lowered(text, DYNAMIC)
    if compiled is None or compiled.form is None:
        return
    by_engine = replace(compiled, form=None, cel=compiled.text, uses=ALL, max_weight=10_000)
    assert outcome(compiled, message) == outcome(by_engine, message)


@pytest.mark.parametrize(
    "text",
    [
        "payload.incident.id",
        'headers["x-github-event"]',
        "payload.items[0].name",
        '"pagerduty"',
        'payload.incident.urgency == "high" ? "critical" : "high"',
        'payload.action in ["opened", "closed"] && !payload.draft',
        'has(payload.customer) ? payload.customer : "none"',
        '[payload.a, {"b": payload.b}]',
        'payload.type.startsWith("invoice.")',
    ],
)
def test_common_expressions_need_no_engine(text: str) -> None:
    assert set(written_expression(text)) == {"text", "form"}


@pytest.mark.parametrize(
    ("text", "payload", "value"),
    [
        ("size(payload.name)", {"name": "héllo"}, 5),
        ("payload.name.size()", {"name": "héllo"}, 5),
        ("payload.items.map(item, item.price * 2)", {"items": [{"price": 2}, {"price": 3}]}, [4, 6]),
        ("payload.items.filter(item, item > 1).size()", {"items": [1, 2, 3]}, 2),
        ("payload.a == payload.b", {"a": {"x": [1]}, "b": {"x": [1.0]}}, True),
        ('payload.name.matches("^[a-z]+$")', {"name": "abc"}, True),
        ("string(payload.id) + '/' + payload.name", {"id": 5, "name": "x"}, "5/x"),
        ("received_at.getFullYear()", {}, 2026),
        ('received_at + duration("90s")', {}, "2026-11-16T09:31:30Z"),
        ('received_at - timestamp("2026-11-16T09:00:00Z")', {}, "1800s"),
        ("[1, 2].exists(n, n == payload.n)", {"n": 2}, True),
        ("payload.big + 1.0", {"big": 2**70}, 2.0**70 + 1.0),
        ("payload.half + '!'", {"half": "\ud800"}, "?!"),
    ],
)
def test_the_engine_evaluates_what_has_no_form(text: str, payload: Any, value: Any) -> None:
    compiled = expression(text)
    assert compiled.form is None
    message = {"payload": payload, "headers": {}, "source_ip": "", "received_at": "2026-11-16T09:30:00Z"}
    assert compiled.evaluate(message) == value


def test_typed_values_reach_the_engine_as_what_they_are() -> None:
    fields = "message_type { raw: bytes  wait: duration  at: time  by_id: map<int, string>  inner: { at: time } }"
    message = {
        "raw": "aGk=",
        "wait": "1m",
        "at": "2026-11-16T09:30:00+02:00",
        "by_id": {"7": "seven"},
        "inner": {"at": "2026-11-16T08:00:00Z", "new": 1},
    }
    assert expression('raw + b"!"', fields).evaluate(message) == "aGkh"
    assert expression('wait > duration("59s")', fields).evaluate(message) is True
    assert expression("inner.at > at", fields).evaluate(message) is True
    assert expression("by_id[7]", fields).evaluate(message) == "seven"
    assert expression("at", fields).evaluate(message) == "2026-11-16T09:30:00+02:00"


def test_a_failed_expression_says_which_and_why() -> None:
    with pytest.raises(ExpressionFailed, match=r"`payload\.incident\.id`: there is no field 'incident'"):
        expression("payload.incident.id").evaluate({"payload": {}})
    with pytest.raises(ExpressionFailed, match=r"`payload\.a \+ 1`"):
        expression("payload.a + 1").evaluate({"payload": {"a": "x"}})
