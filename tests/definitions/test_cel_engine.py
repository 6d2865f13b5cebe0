"""What needs the CEL engine: what it sees, what it gives back, and what it is spared."""

from __future__ import annotations

import sys

import pytest

from millrace.definitions.cel_engine import MAX_DEPTH, compiled, engine
from millrace.definitions.expression import EvaluationError
from millrace.model.errors import ExpressionFailed
from tests.definitions.writing import loaded, queue_text


def evaluated(text: str, payload: object) -> object:
    definition = loaded(queue_text(f"map_to: command A.B {{ value: {text} }}")).queue("Jobs")
    message = {"payload": payload, "headers": {}, "source_ip": "", "received_at": "2026-01-01T00:00:00Z"}
    return definition.targets[0].render(message)["value"]


@pytest.mark.parametrize(
    ("text", "payload", "value"),
    [
        ("payload.a + payload.b", {"a": 1, "b": 2}, 3),
        ("size(payload.text)", {"text": "naïve"}, 5),
        ("payload.items.filter(i, i > 1)", {"items": [1, 2, 3]}, [2, 3]),
        ("received_at + duration('1h')", {}, "2026-01-01T01:00:00Z"),
    ],
)
def test_values_go_in_and_come_out_as_json(text: str, payload: object, value: object) -> None:
    assert evaluated(text, payload) == value


@pytest.mark.parametrize("payload", [{"a": 1}, {"a": 1, "b": "x"}, "no object", {"a": 2**63 - 1, "b": 1}])
def test_what_has_no_value_fails_by_itself(payload: object) -> None:
    with pytest.raises(ExpressionFailed):
        evaluated("payload.a + payload.b", payload)


def test_what_is_too_deep_or_too_large_is_refused_before_it_starts() -> None:
    deep: object = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for payload in ({"items": deep}, {"items": ["x"] * 1_000_000}):
        with pytest.raises(ExpressionFailed, match=r"nested deeper|too large"):
            evaluated("payload.items.filter(i, i != 1)", payload)


def test_a_text_that_does_not_parse_is_named() -> None:
    with pytest.raises(EvaluationError):
        compiled("1 +")


def test_only_the_extension_module_is_loaded() -> None:
    assert engine() is sys.modules["cel.cel"]
