"""Who may call a webhook: every scheme, the questions of providers, the windows of secrets."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.signatures import PRESETS, Headers, PublishedKeys, WebhookRequest
from tests.signatures.cases import SHAPES
from tests.signatures.issuers import Makers
from tests.webhooks.gate import DOMAIN, OLD_SECRET, OTHERS, SECRET, Gate, endpoints, signed, v1, v2, with_headers

ENDPOINTS = {
    "github": "GitHub", "pagerduty": "PagerDuty", "stripe": "Stripe", "slack": "Slack", "zoom": "Zoom",
    "twitch": "Twitch", "shopify": "Shopify", "linear": "Linear", "standard_webhooks": "Standard", "svix": "Svix",
    "meta": "Meta", "x": "X", "twilio": "Twilio", "square": "Square",
}  # fmt: skip
BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_every_provider_has_a_endpoint_here() -> None:
    assert {*ENDPOINTS, *OTHERS} == set(PRESETS)
    assert set(OTHERS) <= set(endpoints()["webhooks"])


@pytest.mark.parametrize("endpoint", sorted(set(SHAPES) & set(OTHERS)))
def test_every_shape_of_proof_opens_its_endpoint_and_no_other_secret_does(memory_gate: Gate, endpoint: str) -> None:
    assert memory_gate.send(endpoint, BODY, secret=OLD_SECRET).status == 401
    assert memory_gate.send(endpoint, BODY).status in (200, 202, 204)


def test_a_token_and_a_signature_in_the_query_or_the_body_open_their_endpoints(memory_gate: Gate) -> None:
    for endpoint in ("gitlab", "postmark", "pandadoc", "mailgun"):
        body = b'{"signature": {}, "event-data": {"id": "e"}}'
        assert memory_gate.send(endpoint, body, secret=OLD_SECRET).status == 401
        assert memory_gate.send(endpoint, body).status in (200, 202), endpoint


@pytest.mark.parametrize("endpoint", sorted({*ENDPOINTS.values(), "Generic"}))
def test_every_scheme_opens_its_endpoint_and_a_changed_body_does_not(gate: Gate, endpoint: str) -> None:
    headers, body = (FORM, b"a=1&b=2") if endpoint == "Twilio" else (None, BODY)
    request = signed(endpoint, body, gate.now(), headers=headers)
    changed = v2(WebhookRequest(request.method, request.url, request.path, request.query, request.headers, body + b" "))
    refused = gate.call(changed)
    assert refused.status == 401
    document = refused.json
    assert document.pop("correlation_id") == refused.headers["X-Correlation-Id"]
    assert document == {
        "type": "urn:millrace:signature_invalid",
        "title": "The request could not be authenticated",
        "status": 401,
        "code": "signature_invalid",
        "detail": "The request could not be authenticated.",
    }
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert gate.call(v2(request)).status in (200, 202, 204)


def test_refusals_look_the_same_whatever_was_wrong(gate: Gate) -> None:
    good = signed("Stripe", BODY, gate.now())
    old = signed("Stripe", BODY, gate.now() - 301_000)
    new = signed("Stripe", BODY, gate.now() + 301_000)
    other = signed("Stripe", BODY, gate.now(), secret="whsec_other")
    bare = with_headers(good, {"stripe-signature": ""})
    twice = with_headers(good, {"stripe-signature": ",".join([*good.headers.all("stripe-signature")] * 2)})
    answers = [gate.call(v2(request)) for request in (old, new, other, bare, twice)]
    assert {answer.status for answer in answers} == {401}
    documents = [{name: value for name, value in answer.json.items() if name != "correlation_id"} for answer in answers]
    assert all(document == documents[0] for document in documents)


def test_secret_that_is_not_configured_fails_closed_and_is_our_fault(gate: Gate) -> None:
    request = signed("Unset", BODY, gate.now(), secret=SECRET)
    answer = gate.call(v2(request))
    assert (answer.status, answer.json["code"]) == (500, "configuration_missing")
    assert "HOOK_SECRET" not in answer.text


def _get(endpoint: str, query: str) -> dict[str, Any]:
    url = f"https://{DOMAIN}/hook/{endpoint}?{query}"
    return v2(WebhookRequest.build("GET", url))


def test_meta_asks_with_a_get_and_a_token(gate: Gate) -> None:
    query = "hub.mode=subscribe&hub.verify_token={}&hub.challenge=1158201444"
    answer = gate.call(_get("Meta", query.format("mill-race-token")))
    assert (answer.status, answer.text) == (200, "1158201444")
    assert answer.headers["content-type"].startswith("text/plain")
    assert gate.call(_get("Meta", query.format("wrong"))).status == 401
    assert gate.call(_get("Meta", query.format(""))).status == 401
    assert gate.call(_get("Meta", "hub.mode=unsubscribe")).status == 405


def test_x_asks_with_a_get_and_gets_a_proof(gate: Gate) -> None:
    answer = gate.call(_get("X", "crc_token=challenge_string&nonce=x"))
    assert answer.status == 200
    assert answer.json["response_token"].startswith("sha256=")
    assert len(base64.b64decode(answer.json["response_token"][7:])) == 32


def test_signed_challenges_are_answered_and_not_queued(gate: Gate) -> None:
    slack = gate.send("Slack", b'{"type": "url_verification", "challenge": "3eZbrw1aB"}')
    assert (slack.status, slack.json) == (200, {"challenge": "3eZbrw1aB"})
    zoom = gate.send("Zoom", b'{"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8"}}')
    assert (zoom.status, zoom.json["plainToken"], len(zoom.json["encryptedToken"])) == (200, "qgg8", 64)
    twitch = gate.send("Twitch", b'{"challenge": "pogchamp-kappa-360noscope", "subscription": {}}')
    assert (twitch.status, twitch.text) == (200, "pogchamp-kappa-360noscope")
    unsigned = signed("Slack", b'{"type": "url_verification", "challenge": "x"}', gate.now(), secret="whsec_wrong")
    assert gate.call(v2(unsigned)).status == 401
    assert gate.queue("Events").state(fresh=True).arrived == 0


def test_questions_without_a_proof_are_answered_and_not_queued(gate: Gate) -> None:
    head = gate.call(v2(WebhookRequest.build("HEAD", f"https://{DOMAIN}/hook/trello")))
    assert (head.status, head.text) == (200, "")
    asked = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/microsoft_graph?validationToken=Validation%3A+7")
    graph = gate.call(v2(asked))
    assert (graph.status, graph.text, graph.headers["x-content-type-options"]) == (200, "Validation: 7", "nosniff")
    ping = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/woocommerce", FORM, b"webhook_id=7")
    assert (gate.call(v2(ping)).status, gate.call(v2(ping)).text) == (200, "")
    for endpoint in ("GitHub", "woocommerce", "microsoft_graph", "azure_event_grid", "aws_sns"):
        for method in ("HEAD", "OPTIONS", "GET", "PUT"):
            refused = gate.call(v2(WebhookRequest.build(method, f"https://{DOMAIN}/hook/{endpoint}"))).status
            assert refused == (401 if (endpoint, method) == ("azure_event_grid", "OPTIONS") else 405)
    assert gate.call(v2(replace(ping, path="/hook/GitHub"))).status == 401
    assert gate.queue("Events").state(fresh=True).arrived == 0


def test_event_grid_asks_with_its_token_for_a_permission(gate: Gate) -> None:
    origin = {"webhook-request-origin": "eventgrid.azure.net"}
    url = f"https://{DOMAIN}/hook/azure_event_grid"
    answer = gate.call(v2(WebhookRequest.build("OPTIONS", f"{url}?token={SECRET}", origin)))
    assert (answer.status, answer.headers["webhook-allowed-origin"]) == (200, "eventgrid.azure.net")
    assert gate.call(v2(WebhookRequest.build("OPTIONS", f"{url}?token=wrong", origin))).status == 401
    assert gate.call(v2(WebhookRequest.build("OPTIONS", f"{url}?token={SECRET}"))).status == 401


def test_a_subscription_is_confirmed_once_amazon_has_proven_it(gate: Gate) -> None:
    asked = b'{"Type": "SubscriptionConfirmation", "Message": "m", "Token": "2336412f37", "SubscribeURL": "https://x"}'
    makers = Makers()
    keys = PublishedKeys(makers, gate.now)
    gate.ingress = replace(gate.ingress, keys=keys)
    assert gate.send("aws_sns", asked).status == 503, "Amazon asks again"
    assert [address.url.partition("&")[0] for address in makers.asked][1:] == [
        "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription"
    ]
    makers.held[makers.asked[1].url] = b"<ok/>"
    assert (gate.send("aws_sns", asked).status, gate.send("aws_sns", asked).text) == (200, "")
    forged = signed("aws_sns", asked, gate.now())
    body = forged.body.replace(b"2336412f37", b"1111111111")
    assert gate.call(v2(WebhookRequest.build("POST", forged.url, {}, body))).status == 401
    assert len(makers.asked) == 4, "the certificate once, and a visit for each proven question"
    assert gate.queue("Events").state(fresh=True).arrived == 0


def test_keys_that_cannot_be_had_are_our_fault_and_accept_nothing(gate: Gate) -> None:
    makers = Makers()
    makers.down = True
    gate.ingress = replace(gate.ingress, keys=PublishedKeys(makers, gate.now))
    for endpoint in ("aws_sns", "paypal", "google_pubsub", "plaid"):
        answer = gate.send(endpoint, BODY)
        assert (answer.status, answer.json["code"]) == (503, "secret_unavailable")
    assert gate.queue("Events").state(fresh=True).arrived == 0


def test_deliveries_with_published_keys_are_queued(gate: Gate) -> None:
    for endpoint in ("aws_sns", "paypal", "google_pubsub", "plaid"):
        assert gate.send(endpoint, BODY).status in (200, 202, 204), endpoint
    assert len(claim(gate.queue("Events"), owner="w", limit=10).claims) == 4


def _with_window(gate: Gate, endpoint: str, change: Any) -> Gate:
    compiled = copy.deepcopy(endpoints())
    change(compiled["webhooks"][endpoint])
    gate.ingress = replace(gate.ingress, definitions=Definitions(compiled))
    return gate


def test_secret_outside_its_window_opens_nothing(gate: Gate) -> None:
    def retire_the_old(webhook: Any) -> None:
        webhook["secrets"][1]["valid_until"] = "2026-12-31T00:00:00Z"

    retired = _with_window(gate, "PagerDuty", retire_the_old)
    assert retired.send("PagerDuty", BODY, secret=OLD_SECRET).status == 401
    assert retired.send("PagerDuty", BODY).status == 202


def test_verify_token_outside_its_window_answers_nothing(gate: Gate) -> None:
    def retire(webhook: Any) -> None:
        webhook["verify_token"]["valid_until"] = "2026-12-31T00:00:00Z"

    query = "hub.mode=subscribe&hub.verify_token=mill-race-token&hub.challenge=1"
    assert _with_window(gate, "Meta", retire).call(_get("Meta", query)).status == 500


@pytest.mark.parametrize(("endpoint", "hours"), [("Linear", 7), ("Zoom", 1.4)])
def test_a_retry_with_the_first_time_is_taken_or_known_hours_later(gate: Gate, endpoint: str, hours: float) -> None:
    first = signed(endpoint, BODY, gate.now() - int(hours * 3_600_000))
    taken, again = gate.call(v2(first)), gate.call(v2(with_headers(first, {"linear-delivery": "made-up"})))
    assert (taken.status, again.status) == (200, 200)
    assert again.json["message_id"] == taken.json["message_id"]


def test_slack_forms_are_answered_with_nothing_that_a_person_would_read(gate: Gate) -> None:
    command = gate.send("Slack", b"command=%2Fdeploy&text=now&trigger_id=13345224609.8534564800", headers=FORM)
    assert (command.status, command.text) == (200, "")
    event = gate.send("Slack", b'{"type": "event_callback", "event_id": "Ev1"}')
    assert event.json["queued"] is True
    assert len(claim(gate.queue("Events"), owner="w", limit=10).claims) == 2


def twilio_get(query: str) -> WebhookRequest:
    """Twilio's GET: its fields are the query, and the address with it is what is signed."""
    from millrace.signatures import Secret
    from millrace.signatures.signing import sign

    url = f"https://{DOMAIN}/hook/Twilio?{query}"
    scheme = PRESETS["twilio"]
    return WebhookRequest.build("GET", url, sign(scheme, Secret("current", SECRET), b"", 0, url=url), b"")


def test_twilio_may_send_its_fields_by_get(gate: Gate) -> None:
    request = twilio_get("MessageSid=SM1&Body=two%20words")
    assert gate.call(v2(request)).status == 204
    queue = gate.queue("Events")
    (held,) = claim(queue, owner="w", limit=1).claims
    assert queue.runtime.bodies.read(held.message) == b"MessageSid=SM1&Body=two%20words"
    assert held.message.content_type == "application/x-www-form-urlencoded"
    altered = replace(request, url=request.url.replace("SM1", "SM2"), query=request.query.replace("SM1", "SM2"))
    assert gate.call(v2(altered)).status == 401
    assert gate.call(v2(WebhookRequest.build("GET", f"https://{DOMAIN}/hook/Twilio?a=1"))).status == 401


@pytest.mark.parametrize("spelling", ["Body=two%20words&a=1", "Body=two+words&a=1"])
def test_a_rest_api_tells_no_spelling_of_a_space_so_both_are_tried(gate: Gate, spelling: str) -> None:
    event = v1(twilio_get(spelling))
    event["requestContext"]["path"] = "/hook/Twilio"
    event["multiValueQueryStringParameters"] = {"Body": ["two words"], "a": ["1"]}
    assert gate.call(event).status == 204
    event["multiValueQueryStringParameters"] = {"Body": ["three words"], "a": ["1"]}
    assert gate.call(event).status == 401


@pytest.mark.parametrize(
    ("public", "signed_url", "called"),
    [
        ("https://p.example/in?team=blue", "https://p.example/in?team=blue", ""),
        ("https://p.example/in?team=blue", "https://p.example/in?team=blue", "team=blue"),
        ("https://p.example/in?team=blue", "https://p.example/in?team=blue&x=1", "x=1"),
        ("https://p.example/in?team=blue", "https://p.example/in?team=blue&x=1", "team=blue&x=1"),
        ("https://p.example/{tenant}/in", "https://p.example/acme/in?x=1", "x=1"),
    ],
)
def test_a_public_url_may_have_a_query_and_a_tenant(gate: Gate, public: str, signed_url: str, called: str) -> None:
    from millrace.signatures import Secret
    from millrace.signatures.signing import deliver

    def change(webhook: Any) -> None:
        webhook["public_url"] = public

    request = deliver(PRESETS["twilio"], Secret("current", SECRET), signed_url, b"a=1", 0, headers=FORM)
    arrived = replace(request, path="/hook/acme/Twilio", query=called, url=f"https://{DOMAIN}/x?{called}")
    assert _with_window(gate, "Twilio", change).call(v2(arrived)).status == 204
    assert gate.call(v2(replace(arrived, query="x=2"))).status == 401


def test_shopifys_new_header_is_believed_like_the_old_one(gate: Gate) -> None:
    old = signed("Shopify", BODY, gate.now())
    renamed = Headers({"shopify-hmac-sha256": old.headers.one("x-shopify-hmac-sha256"), "shopify-topic": "orders/paid"})
    assert gate.call(v2(replace(old, headers=renamed))).status == 202
    assert gate.call(v2(replace(old, headers=renamed, body=BODY + b" "))).status == 401
