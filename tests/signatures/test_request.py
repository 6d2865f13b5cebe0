"""A webhook request as it is read: header names, values, JSON."""

from __future__ import annotations

import pytest

from millrace.signatures import RefusalReason, Scheme, SignatureInvalid, WebhookRequest
from millrace.signatures.request import Headers
from tests.signatures.cases import (
    changed,
    delivery,
    every_scheme,
    pairs,
    refusal,
)


@every_scheme
def test_header_names_have_no_case_and_values_no_margins(scheme: Scheme) -> None:
    request = delivery(scheme)
    shouted = [(name.upper(), f" \t{value} ") for name, value in pairs(request)]
    assert refusal(scheme, changed(request, headers=shouted)) is None


def test_a_header_that_must_be_sent_once_is_refused_otherwise() -> None:
    headers = Headers([("X-One", " a\t"), ("x-two", "a"), ("X-Two", "b"), ("X-Empty", ""), ("X-Long", "a" * 100_000)])
    assert headers.one("x-one") == "a"
    reasons = {}
    for name in ("X-Two", "X-Empty", "X-Missing", "X-Long"):
        with pytest.raises(SignatureInvalid) as refused:
            headers.one(name)
        reasons[name] = refused.value.reason
    assert reasons == {
        "X-Two": RefusalReason.AMBIGUOUS_HEADER,
        "X-Empty": RefusalReason.MISSING_HEADER,
        "X-Missing": RefusalReason.MISSING_HEADER,
        "X-Long": RefusalReason.MALFORMED,
    }


def test_no_repr_shows_what_may_be_secret() -> None:
    request = WebhookRequest.build("post", "https://a.example/hook?token=s3cret", {"X-Key": "s3cret"}, b"s3cret")
    assert (request.method, request.path, request.query) == ("POST", "/hook", "token=s3cret")
    assert "s3cret" not in repr(request)


def test_a_query_parameter_counts_only_when_sent_once() -> None:
    request = WebhookRequest.build("GET", "https://a.example/?a=1&b=2&b=3&c=%FF")
    assert request.parameter("a") is None, "a query that cannot be read says nothing"
    request = WebhookRequest.build("GET", "https://a.example/?a=%C3%BC&b=2&b=3#c=4")
    assert [request.parameter(name) for name in "abc"] == ["ü", None, None]


def test_a_body_that_is_no_object_is_an_empty_one() -> None:
    bodies = {b'{"a": 1}': {"a": 1}, b"[1]": {}, b"{": {}, b"": {}}
    assert {body: WebhookRequest.build("POST", "/", (), body).object_document() for body in bodies} == bodies
