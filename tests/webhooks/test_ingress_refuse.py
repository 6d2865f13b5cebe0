"""A webhook that is refused: with the right status, a stable code, and nothing of use to a stranger."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from millrace.definitions import Definitions
from millrace.http.problems import problem
from millrace.model.errors import InvalidMessage
from millrace.model.queue_spec import MAX_BODY_BYTES
from millrace.signatures import PRESETS, WebhookRequest
from millrace.webhooks.errors import CommandFailed
from tests.webhooks.gate import DOMAIN, OLD_SECRET, SECRET, Gate, endpoints, open_gate, signed, v2, with_headers

ENDPOINTS = {
    "github": "GitHub", "pagerduty": "PagerDuty", "stripe": "Stripe", "slack": "Slack", "zoom": "Zoom",
    "twitch": "Twitch", "shopify": "Shopify", "linear": "Linear", "standard_webhooks": "Standard", "svix": "Svix",
    "meta": "Meta", "x": "X", "twilio": "Twilio", "square": "Square",
}  # fmt: skip
BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_every_provider_has_a_endpoint_here() -> None:
    assert set(ENDPOINTS) == set(PRESETS)


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
    told = [{name: value for name, value in answer.json.items() if name != "correlation_id"} for answer in answers]
    assert all(document == told[0] for document in told)


def test_reason_of_a_refusal_is_a_metric_and_not_in_the_answer(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    answer = gate.call(v2(signed("Stripe", BODY, gate.now() - 301_000)))
    (counted,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"Refused"' in line]
    assert (counted["reason"], counted["webhook"]) == ("timestamp_outside_tolerance", "Stripe")
    assert "timestamp" not in answer.text


def test_secret_that_is_not_configured_fails_closed_and_is_our_fault(gate: Gate) -> None:
    request = signed("Unset", BODY, gate.now(), secret=SECRET)
    answer = gate.call(v2(request))
    assert (answer.status, answer.json["code"]) == (500, "configuration_missing")
    assert "HOOK_SECRET" not in answer.text


@pytest.mark.parametrize(
    "path", ["/hook/Nobody", "/hook", "/", "", "/hook/", "/hook/a/b/c", "/other/GitHub", "/hook/%2e/x"]
)
def test_path_that_leads_nowhere_is_404(gate: Gate, path: str) -> None:
    answer = gate.send("GitHub", BODY, path=path or "/")
    assert (answer.status, answer.json["code"]) == (404, "unknown_webhook")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", ""])
def test_other_methods_are_405(gate: Gate, method: str) -> None:
    event = v2(signed("GitHub", BODY, gate.now()))
    event["requestContext"]["http"]["method"] = method
    answer = gate.call(event)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("endpoint", ["GitHub", "Nobody"])
def test_size_is_looked_at_before_anything_else(gate: Gate, endpoint: str) -> None:
    event = v2(signed("GitHub", b"{}", gate.now(), path=f"/hook/{endpoint}"))
    event["body"], event["isBase64Encoded"] = "A" * (MAX_BODY_BYTES * 4 // 3 + 8), True
    assert gate.call(event).status == 413
    event["body"], event["isBase64Encoded"] = "A" * (MAX_BODY_BYTES + 1), False
    assert gate.call(event).status == 413


def test_size_counts_bytes_not_characters(gate: Gate) -> None:
    event = v2(signed("GitHub", b"{}", gate.now()))
    event["body"] = "ü" * (MAX_BODY_BYTES // 2 + 1)
    assert gate.call(event).status == 413


def test_base64_that_is_none_is_400(gate: Gate) -> None:
    event = v2(signed("GitHub", BODY, gate.now()))
    event["body"], event["isBase64Encoded"] = "not*base64", True
    assert (gate.call(event).status, gate.call(event).json["code"]) == (400, "invalid_request")


def test_message_of_another_type_is_422_with_every_path(gate: Gate) -> None:
    answer = gate.send("Stripe", b'{"id": 7, "type": "invoice.paid", "data": {}}')
    assert (answer.status, answer.json["code"]) == (422, "invalid_message")
    assert answer.json["problems"] == [
        {"path": "payload.id", "expected": "a string", "found": "an int"},
        {"path": "payload.created", "expected": "an int", "found": "nothing"},
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "not JSON at character 0"),
        (b"{", "not JSON at character 1"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "a number too large for a float"),
        (b"[" * 65 + b"]" * 65, "nested more than 64 deep"),
        (b"[" * 100_000, "nested more than 64 deep"),
        (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, "nested more than 64 deep"),
    ],
)
def test_body_that_is_not_json_as_we_read_it_is_422(gate: Gate, body: bytes, found: str) -> None:
    answer = gate.send("Generic", body)
    assert (answer.status, answer.json["problems"]) == (422, [{"path": "payload", "expected": "JSON", "found": found}])


def test_number_of_ten_thousand_digits_is_422(gate: Gate) -> None:
    assert gate.send("Generic", b"9" * 10_000).status == 422
    assert gate.send("Generic", b"9" * 4_000).status == 202


def test_text_that_is_not_utf8_is_422_and_the_same_bytes_as_bytes_are_taken(gate: Gate) -> None:
    headers = {"content-type": "application/octet-stream"}
    assert gate.send("Text", b"\xff\xfe", headers=headers).status == 422
    assert gate.send("Binary", b"\xff\xfe", headers=headers).status == 202


@pytest.mark.parametrize(("endpoint", "expected"), [("Tight", 429)])
def test_full_queue_sheds_in_the_provider_s_dialect(gate: Gate, endpoint: str, expected: int) -> None:
    for number in range(2):
        assert gate.send(endpoint, b'{"event": {"id": "e-%d"}}' % number).status == 202
    answer = gate.send(endpoint, b'{"event": {"id": "e-3"}}')
    assert (answer.status, answer.json["status"], answer.json["code"]) == (expected, expected, "queue_full")
    assert int(answer.headers["Retry-After"]) > 0


def test_shed_is_counted(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        gate.send("Tight", b'{"event": {"id": "e-%d"}}' % number)
    names = [line for line in capsys.readouterr().out.splitlines() if '"Shed":[1' in line.replace(" ", "")]
    assert len(names) == 1


def test_nothing_of_the_sender_reaches_the_log(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    marks = {"authorization": "Bearer mark-1", "cookie": "mark-2", "x-api-key": "mark-3", "user-agent": "mark-4"}
    body = b'{"incident": {"id": "mark-5"}}'
    for secret in (SECRET, "whsec_wrong"):
        request = signed("PagerDuty", body, gate.now(), headers=marks, secret=secret)
        gate.call(v2(request, cookies=["mark-6"]))
        logged = capsys.readouterr().out
        assert logged
        assert "mark-" not in logged
        assert request.headers.one("x-pagerduty-signature") not in logged
        assert SECRET not in logged


@pytest.mark.parametrize(
    "event", [None, [], "x", 7, {}, {"requestContext": None}, {"requestContext": {"http": {}}}, {"Records": []}]
)
def test_event_that_is_no_call_is_400(gate: Gate, event: Any) -> None:
    answer = gate.call(event)
    assert (answer.status, answer.json["code"]) == (400, "invalid_request")


# -- questions of providers ---------------------------------------------------------------------------------------
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


# -- without a queue ----------------------------------------------------------------------------------------------
def _at_once(gate: Gate, run: Any) -> Gate:
    gate.ingress = open_gate(gate.ingress.runtime, gate.ingress.default_tenant, run_command=run)
    return gate


def test_webhook_without_a_queue_answers_with_what_its_command_gave(gate: Gate) -> None:
    calls: list[Any] = []

    def run(name: str, given: Any, correlation_id: str) -> Any:
        calls.append((name, given, correlation_id))
        return {"number": 7}

    answer = _at_once(gate, run).send("AtOnce", b'{"title": "High water"}')
    assert (answer.status, answer.json) == (200, {"result": {"number": 7}})
    assert calls == [("Incident.CreateIncident", {"title": "High water"}, answer.headers["X-Correlation-Id"])]


def test_command_that_raises_is_a_500_that_tells_nothing(gate: Gate) -> None:
    def run(*_: Any) -> Any:
        raise ValueError("the database password is hunter2")

    answer = _at_once(gate, run).send("AtOnce", b'{"title": "High water"}')
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert "hunter2" not in answer.text


def test_command_that_nobody_registered_is_a_500(gate: Gate) -> None:
    assert gate.send("AtOnce", b'{"title": "x"}').status == 500
    assert CommandFailed("A.B", "x").code == "internal"


def test_mapping_without_a_value_is_422(gate: Gate) -> None:
    answer = _at_once(gate, lambda *_: None).send("AtOnce", b'{"name": "x"}')
    assert (answer.status, answer.json["code"]) == (422, "expression_failed")


def test_endpoint_that_is_open_to_anybody_takes_a_bare_call(gate: Gate) -> None:
    request = WebhookRequest.build("POST", f"https://{DOMAIN}/hook/Open", {"content-type": "application/json"}, b"{}")
    first, again = gate.call(v2(request)), gate.call(v2(request))
    assert (first.status, again.json["message_id"]) == (202, first.json["message_id"])


# -- windows of secrets -------------------------------------------------------------------------------------------
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


def test_problem_that_quotes_half_a_character_can_still_be_sent() -> None:
    told = problem(InvalidMessage([('payload["\ud800"]', "an int", '"\udfff"')]), "c-1")
    assert json.loads(told.body.encode("utf-8"))["problems"][0]["path"] == 'payload["\ud800"]'
