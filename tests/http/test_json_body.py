"""JSON as requests carry it: strict, and never deeper than can be read back."""

from __future__ import annotations

import pytest

from millrace.http.json_body import parse_json
from millrace.model.errors import InvalidRequest
from millrace.model.strict_json import MAX_DEPTH


@pytest.mark.parametrize(
    "data",
    [b"{", b'{"a": 1, "a": 2}', b"NaN", b"1e999", b"\xff", b'"\\ud800"', b"[" * 100_000, b"[" * 65 + b"]" * 65],
)
def test_what_is_not_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_json(data)


def test_json_is_read_down_to_the_depth_that_is_allowed() -> None:
    assert parse_json(b'{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    found = parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert isinstance(found, list)
