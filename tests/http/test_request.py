"""Requests read from API Gateway events: path, query, body, and who asks."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.http.problems import Forbidden, Unauthorised
from millrace.http.request import Principal, content_of, document_of, headers_of, path_of, query_of
from millrace.model.errors import InvalidField, InvalidRequest
from millrace.model.tokens import Scope


@pytest.mark.parametrize(
    ("stage", "raw", "path"),
    [("$default", "/v1/queues", "/v1/queues"), ("prod", "/prod/v1", "/v1"), ("prod", "/v1", "/v1"), ("", "", "/")],
)
def test_the_stage_is_no_part_of_the_path(stage: str, raw: str, path: str) -> None:
    assert path_of({"rawPath": raw, "requestContext": {"stage": stage}}) == path


@pytest.mark.parametrize("raw", ["a=1&a=2", "a=%ff", "&".join(f"a{n}=1" for n in range(51))])
def test_a_query_that_cannot_be_read_is_refused(raw: str) -> None:
    with pytest.raises(InvalidRequest):
        query_of({"rawQueryString": raw})


def test_a_query_keeps_blank_values() -> None:
    assert query_of({"rawQueryString": "a=&b=x%20y"}) == {"a": "", "b": "x y"}


def test_a_body_comes_as_text_or_base64() -> None:
    assert content_of({"body": "é"}) == "é".encode()
    assert content_of({"body": "/w==", "isBase64Encoded": True}) == b"\xff"
    assert content_of({}) == b""
    with pytest.raises(InvalidRequest):
        content_of({"body": "no base64", "isBase64Encoded": True})


def test_only_json_is_read_as_json() -> None:
    assert document_of(b'{"a": 1}', "application/vnd.x+json; charset=utf-8") == {"a": 1}
    assert document_of(b"  ", "") == {}
    with pytest.raises(InvalidField):
        document_of(b"{}", "text/plain")


def test_names_of_headers_are_in_lower_case() -> None:
    assert headers_of({"headers": {"X-A": "1", "b": "2"}}) == {"x-a": "1", "b": "2"}
    assert headers_of({"headers": None}) == {}


@pytest.mark.parametrize("context", [None, {}, {"authorizer": None}, {"authorizer": {"lambda": {"token_id": ""}}}])
def test_without_an_authoriser_nobody_is_let_in(context: Any) -> None:
    with pytest.raises(Unauthorised):
        Principal.of({"requestContext": context})


def test_a_principal_reaches_its_tenants_and_scopes() -> None:
    one = Principal("t", "n", frozenset({"read"}), ("acme",))
    assert (one.tenant(None, "d"), one.tenant("acme", "d")) == ("acme", "acme")
    several = Principal("t", "n", frozenset(), ("a", "main"))
    assert (several.tenant(None, "main"), several.tenant("a", "main")) == ("main", "a")
    assert Principal("t", "n", frozenset(), ("*",)).tenant("any", "main") == "any"
    with pytest.raises(Forbidden):  # the default is granted like any other
        several.tenant(None, "default")
    one.require((Scope.CONSUME, Scope.READ))
    for refused in (lambda: one.tenant("other", "d"), lambda: one.require((Scope.OPERATE,))):
        with pytest.raises(Forbidden):
            refused()


def test_a_principal_of_some_queues_reaches_no_others() -> None:
    limited, free = Principal("t", "n", queues=("Jobs",)), Principal("t", "n")
    assert (limited.reaches("Jobs"), limited.reaches("Other"), free.reaches("Other")) == (True, False, True)
    limited.require_queue("Jobs")
    free.require_queue(None)
    for queue in ("Other", "", None):
        with pytest.raises(Forbidden):
            limited.require_queue(queue)
