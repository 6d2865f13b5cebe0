"""Results: what is kept of what a handler returns."""

from __future__ import annotations

import pytest

from millrace.handlers.results import RESULT_BYTES, result_bytes


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (None, b""),
        (b"\x00", b"\x00"),
        ({"n": "é"}, '{"n":"é"}'.encode()),
        (b"x" * RESULT_BYTES, b"x" * RESULT_BYTES),
        (b"x" * (RESULT_BYTES + 1), b""),
    ],
)
def test_a_result_is_kept_as_bytes_up_to_a_limit(result: object, kept: bytes) -> None:
    assert result_bytes(result) == kept
