"""Which webhook a path names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.model.message import Draft
from millrace.signatures import WebhookRequest
from tests.webhooks.gate import ACME_SECRET, DOMAIN, SECRET, Gate, signed, v2, with_headers

BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'


@pytest.mark.parametrize(
    "path", ["/hook/Nobody", "/hook", "/", "", "/hook/", "/hook/a/b/c", "/other/GitHub", "/hook/%2e/x", "/hook//GitHub"]
)
def test_path_that_leads_nowhere_is_404(gate: Gate, path: str) -> None:
    answer = gate.send("GitHub", BODY, path=path or "/")
    assert (answer.status, answer.json["code"]) == (404, "unknown_webhook")


def test_endpoint_that_is_open_to_anybody_takes_a_bare_call(gate: Gate) -> None:
    request = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Open", {"content-type": "application/json"}, b"{}")
    first, again = gate.call(v2(request)), gate.call(v2(request))
    assert (first.status, again.json["message_id"]) == (202, first.json["message_id"])


INCIDENT = b'{"incident": {"id": "PGR0VU2"}}'


def _states(gate: Gate) -> Any:
    """What made-up tenants would leave behind; other tests share the table."""
    ours = (gate.ingress.default_tenant, "made-up", "hook", "DEFAULT", "acme2", "*", "globex", "a" * 48, "..", "%61cme")
    return [state for state in gate.ingress.runtime.store.list_all_queue_states() if state.tenant in ours]


def _posted_to(gate: Gate, captured: WebhookRequest, path: str) -> Any:
    return gate.call(v2(replace(captured, path=path, url=f"https://{DOMAIN}{path}")))


@pytest.mark.parametrize("another", ["made-up", "hook", "DEFAULT", "acme2", "*", "globex", "a" * 48, "..", "%61cme"])
def test_a_captured_delivery_opens_no_other_tenant(gate: Gate, another: str) -> None:
    """One delivery, captured on its way, and posted to tenants of the attacker's making: nothing runs, nothing is
    written, no cached result is read, and the answer is the same as for a webhook that is not there.
    """
    captured = signed("PagerDuty", INCIDENT, gate.now())
    assert gate.call(v2(captured)).status == 202
    queue = gate.queue("Incidents")
    (held,) = claim(queue, owner="w").claims
    ack(queue, [held.entry], results=[b'{"secret": "result"}'])
    before = _states(gate)
    refused = _posted_to(gate, captured, f"/hook/{another}/PagerDuty")
    nowhere = _posted_to(gate, captured, f"/hook/{another}/NoSuchWebhook")
    assert (refused.status, refused.json["code"]) == (404, "unknown_webhook")
    same = {name: value for name, value in refused.json.items() if name != "correlation_id"}
    assert same == {name: value for name, value in nowhere.json.items() if name != "correlation_id"}
    assert "secret" not in refused.text
    assert _states(gate) == before


def test_the_common_secret_does_not_open_a_tenant_that_has_its_own(gate: Gate) -> None:
    path = "/hook/acme/PagerDuty"
    assert gate.send("PagerDuty", INCIDENT, path=path, secret=SECRET).status == 401
    assert gate.send("PagerDuty", INCIDENT, path=path, secret=ACME_SECRET).status == 202
    assert gate.send("PagerDuty", INCIDENT, secret=ACME_SECRET).status == 401, "nor the other way round"


def test_an_unverified_webhook_is_open_to_tenants_only_where_it_says_so(gate: Gate) -> None:
    request = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Open", {"content-type": "application/json"}, b"{}")
    assert _posted_to(gate, request, "/hook/globex/Open").status == 404
    assert _posted_to(gate, request, "/hook/globex/Shared").status == 202
    assert _posted_to(gate, request, "/hook/made-up/Shared").status == 404


def test_the_default_tenant_may_stand_in_the_path(gate: Gate) -> None:
    plain = gate.send("PagerDuty", INCIDENT)
    named = gate.send("PagerDuty", INCIDENT, path=f"/hook/{gate.ingress.default_tenant}/PagerDuty")
    assert named.json["message_id"] == plain.json["message_id"]


def test_hook_hook_is_no_puzzle(gate: Gate) -> None:
    """The first `hook` counts; the second is a tenant, which cannot be declared."""
    assert gate.send("PagerDuty", INCIDENT, path="/hook/hook/PagerDuty").status == 404
    assert gate.send("PagerDuty", INCIDENT, path="/stage/hook/PagerDuty").status == 202


def test_a_token_cannot_take_the_key_of_a_delivery_to_come(gate: Gate) -> None:
    """Whoever may enqueue knows the provider's ids, or the payload's: with one of them as its own key, it must not
    have the genuine delivery taken for a repeat.
    """
    for webhook, queue, key in (("PagerDuty", "Incidents", "PGR0VU2"), ("GitHub", "Repositories", "github:id:d-1")):
        occupied = enqueue(gate.queue(queue), Draft(b"{}", key="k", idempotency_key=key, source="token:webhook:GitHub"))
        body = INCIDENT if webhook == "PagerDuty" else b'{"repository": {"full_name": "a/b"}}'
        request = with_headers(signed(webhook, body, gate.now()), {"x-github-event": "push"})
        first, again = gate.call(v2(request)), gate.call(v2(request))
        assert first.status == 202
        assert "duplicate" not in first.json, webhook
        assert first.json["message_id"] != occupied.message_id
        assert again.json["message_id"] == first.json["message_id"], "a repeat is one still"


def test_two_webhooks_of_one_queue_do_not_share_keys(gate: Gate) -> None:
    """A webhook that anybody may call must not take the keys of one that verifies."""
    body = b'{"any": 1}'
    opened = gate.call(v2(WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Open", {}, body)))
    other = gate.call(v2(WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Shared", {}, body)))
    assert opened.json["idempotency_key"] == other.json["idempotency_key"]
    assert opened.json["message_id"] != other.json["message_id"]
