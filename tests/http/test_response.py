"""Answers as API Gateway takes them."""

from __future__ import annotations

import base64
import json

from millrace.http.response import HttpResponse, item_of, refusal
from millrace.model.errors import NotFound


def test_a_document_goes_out_as_json_that_nobody_keeps() -> None:
    event = HttpResponse(202, {"a": "é"}, headers={"Location": "/x"}).to_event("c-1")
    assert (event["statusCode"], event["body"], event["isBase64Encoded"]) == (202, '{"a":"é"}', False)
    assert event["headers"] == {
        "X-Correlation-Id": "c-1",
        "Cache-Control": "no-store",
        "Location": "/x",
        "Content-Type": "application/json",
    }


def test_bytes_go_out_exactly() -> None:
    event = HttpResponse(200, content=b"\x00\xff", headers={"Content-Type": "image/x"}).to_event("c")
    assert (base64.b64decode(event["body"]), event["isBase64Encoded"]) == (b"\x00\xff", True)
    assert event["headers"]["Content-Type"] == "image/x"


def test_a_refusal_is_a_problem_document() -> None:
    event = refusal(NotFound("path", "/x"), "c-2").to_event("c-2")
    assert (event["statusCode"], json.loads(event["body"])["code"]) == (404, "not_found")
    assert event["headers"]["Content-Type"] == "application/problem+json"


def test_an_item_of_a_batch_is_what_it_would_have_been_alone() -> None:
    assert item_of(202, {"a": 1}, "c") == {"http_status": 202, "a": 1}
    refused = item_of(0, NotFound("path", "/x"), "c")
    assert (refused["http_status"], refused["problem"]["code"]) == (404, "not_found")
