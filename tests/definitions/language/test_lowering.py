"""Plain expressions become forms that need no engine; the rest keeps its CEL and what it looks at."""

from __future__ import annotations

import pytest

from tests.definitions.writing import only_message, queue_text, written_expression


@pytest.mark.parametrize(
    "text",
    ["payload.id", "payload.id == 'a' && source_ip != 'b'", "[payload.a, 1]", "{'a': payload.b}", "has(payload.id)"],
)
def test_a_plain_expression_needs_no_engine(text: str) -> None:
    written = written_expression(text)
    assert written.keys() == {"text", "form"}
    assert written["text"] == text


def test_any_other_names_its_cel_and_the_paths_that_it_is_shown() -> None:
    written = written_expression("size(payload.items) + int(headers['x-count'])")
    assert "form" not in written
    assert written["cel"].startswith("millrace_length(payload.items)")
    assert written["uses"] == [["headers", "x-count"], ["payload", "items"]]
    assert written["max_weight"] > 0


def test_an_expression_that_is_too_long_is_refused() -> None:
    text = f"payload.{'a' * 2_000}"
    assert "characters" in only_message(queue_text(f"map_to: command A.B {{ value: {text} }}"))
