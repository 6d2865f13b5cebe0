"""The transport: what goes on the wire, and calls that explain themselves."""

from __future__ import annotations

import inspect

import httpx
import pytest

from millrace.client import Client, Unreachable
from tests.client.conftest import URL, Wire


def test_a_request_carries_the_token_and_the_tenant(wire: Wire) -> None:
    with Client(URL + "/", "mrt_x", tenant="acme", transport=wire) as client:
        client.enqueue("Jobs", 1)
    (request,) = wire.requests
    assert request.headers["authorization"] == "Bearer mrt_x"
    assert (request.url.path, request.url.params["tenant_id"]) == ("/v1/queues/Jobs/messages", "acme")


@pytest.mark.parametrize(("fault", "sent"), [(httpx.ConnectTimeout("x"), False), (httpx.ReadTimeout("x"), True)])
def test_no_answer_says_whether_the_request_may_have_arrived(
    client: Client, wire: Wire, fault: Exception, sent: bool
) -> None:
    wire.before = lambda _request: fault
    with pytest.raises(Unreachable) as silence:
        client.claim("Jobs")
    assert silence.value.sent is sent


def test_a_call_shows_its_signature_and_docstring(client: Client) -> None:
    assert client.extend.__name__ == "extend"
    assert list(inspect.signature(client.extend).parameters) == ["queue", "claim", "lease_ms"]
    assert "Raises ClaimLost" in str(client.extend.__doc__)
    assert list(inspect.signature(client.stream_body).parameters) == ["queue", "message_id", "part_bytes"]
