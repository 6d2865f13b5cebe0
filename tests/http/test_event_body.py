"""How large a request may be: what is promised always gets through Lambda, and what we refuse is refused by us."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.gateway import Binding, GatewayResponse, Request, answer
from millrace.http.event_body import MAX_BINARY_BYTES, MAX_ENCODED_BYTES, body_of, encoded_size
from millrace.http.problems import problem
from millrace.model.errors import InvalidRequest, MillraceError, RequestTooLarge

JSON, OCTETS = "application/json", "application/octet-stream"
#: As many headers as API Gateway takes.
HEADERS = {f"x-{number}": '"' * 1_000 for number in range(10)}


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text('"\\\n\r\t\b\f\x00\x1f\x7f\u2028é'))
def test_text_is_counted_as_json_spells_it(text: str) -> None:
    spelled = json.dumps(text, ensure_ascii=False).encode()
    assert encoded_size(text.encode()) == len(spelled) - 2


def through_the_gateway(body: bytes, content_type: str) -> tuple[GatewayResponse, list[int]]:
    """A function that reads its request, behind API Gateway and Lambda as the local stack has them."""
    seen: list[int] = []

    def function(event: dict[str, Any], _context: object) -> dict[str, Any]:
        try:
            seen.append(len(body_of(event["body"], encoded=event["isBase64Encoded"])))
        except MillraceError as error:
            described = problem(error, "c")
            return {"statusCode": described.status, "headers": described.headers, "body": described.body}
        return {"statusCode": 202}

    headers = {**HEADERS, "content-type": content_type}
    return answer([Binding("POST /x", function)], Request("POST", "/x", "", headers, body, "127.0.0.1")), seen


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xff" * MAX_BINARY_BYTES, OCTETS),
        (b"\xff" * MAX_BINARY_BYTES, JSON),  # said to be text, and none
        (b"x" * MAX_ENCODED_BYTES, JSON),
        (b'"' * (MAX_ENCODED_BYTES // 2), JSON),
        (b"\n" * (MAX_ENCODED_BYTES // 2), "text/plain"),
        (b"\x00" * (MAX_ENCODED_BYTES // 6), "text/plain"),
        (("é" * (MAX_ENCODED_BYTES // 2)).encode(), JSON),
    ],
    ids=["binary", "binary as text", "text", "quotes", "lines", "controls", "accents"],
)  # fmt: skip
def test_what_is_promised_gets_through_and_one_byte_more_is_our_own_413(body: bytes, content_type: str) -> None:
    taken, seen = through_the_gateway(body, content_type)
    assert (taken.status, seen) == (202, [len(body)])
    refused, seen = through_the_gateway(body + body[-2:], content_type)
    document = json.loads(refused.body)
    assert (refused.status, seen) == (413, [])
    assert (document["code"], document["max_bytes"]) == ("body_too_large", MAX_ENCODED_BYTES)


def test_what_lambda_does_not_take_is_refused_in_api_gateways_words() -> None:
    refused, seen = through_the_gateway(b"\xff" * (5 * 1024 * 1024), OCTETS)
    assert (refused.status, json.loads(refused.body), seen) == (413, {"message": "Request Too Long"}, [])


def test_what_is_no_body_is_refused() -> None:
    assert body_of(None, encoded=False) == b""
    assert body_of("/w==", encoded=True) == b"\xff"
    assert body_of("\ud800", encoded=False) == "\ud800".encode("utf-8", "surrogatepass")
    for body, encoded in ((7, False), ("no base64", True)):
        with pytest.raises(InvalidRequest):
            body_of(body, encoded=encoded)


def test_a_body_over_the_limit_is_not_decoded() -> None:
    with pytest.raises(RequestTooLarge):
        body_of("#" * (MAX_ENCODED_BYTES + 1), encoded=True)  # no base64: decoding would say so
    assert len(base64.b64encode(b"x" * MAX_BINARY_BYTES)) == MAX_ENCODED_BYTES
