"""Bodies in requests and answers: as JSON, as base64, or as bytes for a download."""

from __future__ import annotations

import pytest

from millrace.http.bodies import MAX_PART, as_bytes, download, show_bytes
from millrace.model.errors import InvalidField


def test_bytes_are_shown_as_json_where_they_are_json() -> None:
    assert show_bytes("body", b'{"a": 1}') == {"body": {"a": 1}}
    assert show_bytes("body", b'{"a": 1}', as_json=False) == {"body_base64": "eyJhIjogMX0="}
    assert show_bytes("body", b"\xff") == {"body_base64": "/w=="}
    assert show_bytes("body", None) == {}


def test_a_request_gives_json_or_bytes_or_nothing() -> None:
    assert as_bytes({"body": {"a": "é"}}, "body") == '{"a":"é"}'.encode()
    assert as_bytes({"body_base64": b"\xff"}, "body") == b"\xff"
    assert as_bytes({"body": None}, "body") == b"null"
    assert as_bytes({}, "body") is None


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [(None, 200, None), ("bytes=0-", 206, "0-9/10"), ("bytes=3-5", 206, "3-5/10"), ("bytes=9-99", 206, "9-9/10")],
)
def test_a_download_is_whole_or_the_range_that_was_asked_for(asked: str | None, status: int, part: str | None) -> None:
    got = download("text/html", b"0123456789", asked)
    assert (got.status, got.headers.get("Content-Range")) == (status, f"bytes {part}" if part else None)
    assert got.headers["Content-Disposition"] == "attachment"
    assert got.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=5-3", "lines=1-2", "bytes=-5"])
def test_a_range_that_is_not_there_is_refused(asked: str) -> None:
    with pytest.raises(InvalidField):
        download("text/html", b"0123456789", asked)


def test_what_is_too_large_for_one_answer_comes_in_parts() -> None:
    got = download("text/html", b"x" * (MAX_PART + 1), None)
    assert (got.status, len(got.content or b"")) == (206, MAX_PART)
