"""Errors: answers of the API and of proxies in front of it."""

from __future__ import annotations

import httpx
import pytest

from millrace.client import (
    AccessDenied,
    BadRequest,
    Busy,
    Client,
    RequestRefused,
    ResourceNotFound,
)
from tests.client.conftest import Wire


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx.Response(403, json={"message": "Forbidden"}), AccessDenied),
        (httpx.Response(401, json={"message": "Unauthorized"}), AccessDenied),
        (httpx.Response(404, text="<html>"), ResourceNotFound),
        (httpx.Response(502, text="<html>"), Busy),
        (httpx.Response(418), BadRequest),
        (httpx.Response(302, headers={"Location": "/"}), BadRequest),
    ],
)
def test_a_proxys_own_words_are_understood(
    client: Client, wire: Wire, answer: httpx.Response, kind: type[RequestRefused]
) -> None:
    wire.before = lambda _request: answer
    with pytest.raises(kind):
        client.queues()
