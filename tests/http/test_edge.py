"""Behind CloudFront only what CloudFront passed on is answered, and only then is a header's address believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from functions.admin import app as admin
from functions.consumer import handler as consumer
from functions.ingress import handler as ingress
from millrace.http.edge import EDGE_HEADER, passed, refused

SECRET = "s3cret"


def event(**headers: str) -> dict[str, Any]:
    return {
        "version": "2.0",
        "rawPath": "/hook/X",
        "headers": headers,
        "requestContext": {
            "http": {"method": "POST", "path": "/hook/X", "sourceIp": "130.176.0.1"},
            "stage": "$default",
        },
    }


def source_ip(found: Mapping[str, Any] | None) -> str:
    assert found is not None
    return str(found["requestContext"]["http"]["sourceIp"])


def test_without_a_distribution_nothing_is_asked_and_no_header_believed() -> None:
    given = event(**{"x-forwarded-for": "6.6.6.6, 130.176.0.1", EDGE_HEADER: "guess"})
    assert passed(given, "") == given
    assert source_ip(passed(given, "")) == "130.176.0.1"


@pytest.mark.parametrize(
    ("forwarded", "seen"),
    [
        ("203.0.113.7, 130.176.0.1", "203.0.113.7"),
        ("6.6.6.6, 203.0.113.7, 130.176.0.1", "203.0.113.7"),  # the first was written by the sender
        ("130.176.0.1", ""),
        ("", ""),
    ],
)
def test_the_sender_is_whom_cloudfront_saw(forwarded: str, seen: str) -> None:
    found = passed(event(**{EDGE_HEADER: SECRET, "X-Forwarded-For": forwarded}), SECRET)
    assert source_ip(found) == seen
    assert found is not None
    assert EDGE_HEADER not in found["headers"], "nobody reads it in a message, a filter or a log"


@pytest.mark.parametrize(
    "headers", [{}, {EDGE_HEADER: ""}, {EDGE_HEADER: "S3cret"}, {EDGE_HEADER: f"{SECRET}, {SECRET}"}]
)
def test_who_comes_around_is_refused(headers: dict[str, str]) -> None:
    assert passed(event(**headers), SECRET) is None
    answer = refused()
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (403, "forbidden")


@pytest.mark.parametrize("handler", [ingress.handler, consumer.handler, admin.handler])
def test_every_function_of_the_api_asks(handler: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them has an environment to work in here: they refuse before they need one."""
    monkeypatch.setenv("EDGE_SECRET", SECRET)
    events: list[Any] = [event(), {"requestContext": {}}, {"requestContext": None, "headers": 7}]
    for given in events:
        assert handler(given, None)["statusCode"] == 403
