"""Which webhook a path names."""

from __future__ import annotations

import pytest

from millrace.signatures import WebhookRequest
from tests.webhooks.gate import DOMAIN, Gate, v2

BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'


@pytest.mark.parametrize(
    "path", ["/hook/Nobody", "/hook", "/", "", "/hook/", "/hook/a/b/c", "/other/GitHub", "/hook/%2e/x"]
)
def test_path_that_leads_nowhere_is_404(gate: Gate, path: str) -> None:
    answer = gate.send("GitHub", BODY, path=path or "/")
    assert (answer.status, answer.json["code"]) == (404, "unknown_webhook")


def test_endpoint_that_is_open_to_anybody_takes_a_bare_call(gate: Gate) -> None:
    request = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Open", {"content-type": "application/json"}, b"{}")
    first, again = gate.call(v2(request)), gate.call(v2(request))
    assert (first.status, again.json["message_id"]) == (202, first.json["message_id"])
