"""Which headers an expression reads, and which of them a signature covers."""

from __future__ import annotations

import pytest

from millrace.definitions.unsigned import EVERY, headers_read, readers_of, unsigned_headers
from millrace.signatures import preset
from tests.definitions.writing import expression, loaded, queue_text, written_expression


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ('headers["a"]', {"a"}),
        ('has(headers.b) ? headers["c"] : payload.d', {"b", "c"}),
        ('headers["a"].startsWith("x") && source_ip == "1"', {"a"}),
        ("size(headers)", {EVERY}),
        ("payload.headers", set()),
        ("source_ip", set()),
    ],
)
def test_compiled_and_loaded_expressions_read_the_same_headers(text: str, headers: set[str]) -> None:
    assert headers_read(written_expression(text)) == headers
    assert headers_read(expression(text)) == headers


def test_a_signed_header_is_left_out() -> None:
    mapping = "map_to: command A.B { id: headers['webhook-id']  kind: headers['x-kind'] }"
    queue = loaded(queue_text(mapping)).queue("Jobs")
    assert unsigned_headers(preset("standard_webhooks"), readers_of(queue)) == {"x-kind": ["kind"]}
    assert set(unsigned_headers(preset("github"), readers_of(queue))) == {"webhook-id", "x-kind"}
