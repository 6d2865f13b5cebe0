"""Challenges: answered only to who may ask, and never more than a plain token."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64encode
from urllib.parse import urlencode

import pytest

from millrace.signatures import (
    ChallengeResponse,
    ConfigurationMissing,
    RefusalReason,
    Secret,
    SignatureInvalid,
    WebhookRequest,
    challenge,
    handshake,
    preset,
    verify,
)
from millrace.signatures.challenges import asks_anybody
from millrace.signatures.signing import deliver
from tests.signatures.cases import NOW, SCHEMES, URL, changed, delivery, refusal, secret_of

SECRET = Secret("current", "signing secret")
TOKEN = Secret("verify", "meatyhamhock")
HOSTILE = [
    "<script>alert(1)</script>",
    "a b",
    "a\r\nset-cookie: x=1",
    '"}',
    "",
    "x" * 257,
    "ü",
    "v0:1:{}",
    '{"a":1}',
    "&lt;",
    None,
    7,
    ["x"],
    {"x": 1},
]


def answered(name: str, document: object) -> ChallengeResponse | None:
    scheme = preset(name)
    request = deliver(scheme, SECRET, URL, json.dumps(document).encode(), NOW, delivery_id="d-1")
    return challenge(scheme, request, verify(scheme, request, [SECRET], NOW))


def get(**parameters: str) -> WebhookRequest:
    return WebhookRequest.build("GET", "https://h.example/hook/x?" + urlencode(parameters))


def hub(token: str = TOKEN.value, number: str = "1158201444", mode: str = "subscribe") -> WebhookRequest:
    return get(**{"hub.mode": mode, "hub.challenge": number, "hub.verify_token": token})


def test_slack_gets_its_challenge_back() -> None:
    answer = answered("slack", {"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV"})
    assert answer is not None
    assert (answer.status, json.loads(answer.body)) == (200, {"challenge": "3eZbrw1aBm2rZgRNFdxV"})
    assert answer.headers["content-type"] == "application/json"


def test_zoom_gets_its_token_signed() -> None:
    answer = answered("zoom", {"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}})
    assert answer is not None
    proof = hmac.new(SECRET.value.encode(), b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256).hexdigest()
    assert json.loads(answer.body) == {"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": proof}


def test_zoom_is_answered_with_the_secret_that_it_signed_with() -> None:
    scheme, newer = preset("zoom"), Secret("newer", "another")
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}'
    request = deliver(scheme, newer, URL, body, NOW)
    answer = challenge(scheme, request, verify(scheme, request, [SECRET, newer], NOW))
    assert answer is not None
    assert json.loads(answer.body)["encryptedToken"] == hmac.new(b"another", b"abc", hashlib.sha256).hexdigest()


def test_twitch_gets_its_challenge_as_text() -> None:
    answer = answered("twitch", {"challenge": "pogchamp-kappa-360noscope-vohiyo", "subscription": {}})
    assert answer == ChallengeResponse(200, "text/plain; charset=utf-8", b"pogchamp-kappa-360noscope-vohiyo")


def test_meta_gets_its_number_back_for_the_right_token() -> None:
    answer = handshake(preset("meta"), hub(), [SECRET], NOW, [Secret("older", "old"), TOKEN])
    assert answer == ChallengeResponse(200, "text/plain; charset=utf-8", b"1158201444")


def test_x_gets_its_token_signed() -> None:
    answer = handshake(preset("x"), get(crc_token="OTJiNWEzYTAt"), [SECRET], NOW)
    assert answer is not None
    proof = b64encode(hmac.new(SECRET.value.encode(), b"OTJiNWEzYTAt", hashlib.sha256).digest()).decode()
    assert json.loads(answer.body) == {"response_token": f"sha256={proof}"}


@pytest.mark.parametrize("token", ["", "meatyhamhoc", "meatyhamhockk", "MEATYHAMHOCK", "ü", "\x00"])
def test_meta_with_a_wrong_token_is_refused(token: str) -> None:
    with pytest.raises(SignatureInvalid) as refused:
        handshake(preset("meta"), hub(token), [SECRET], NOW, [TOKEN])
    assert refused.value.reason is RefusalReason.CHALLENGE_REFUSED


def test_meta_without_a_live_token_fails_closed() -> None:
    for tokens in ([], [Secret("past", "meatyhamhock", None, NOW - 1)]):
        with pytest.raises(ConfigurationMissing):
            handshake(preset("meta"), hub(""), [SECRET], NOW, tokens)


def test_repeated_query_parameter_is_not_a_challenge() -> None:
    query = "hub.mode=subscribe&hub.mode=x&hub.verify_token=meatyhamhock&hub.challenge=1"
    request = WebhookRequest.build("GET", f"https://h.example/hook/x?{query}")
    assert handshake(preset("meta"), request, [SECRET], NOW, [TOKEN]) is None
    twice = WebhookRequest.build("GET", "https://h.example/hook/x?crc_token=a&crc_token=b")
    assert handshake(preset("x"), twice, [SECRET], NOW) is None


def test_only_a_get_is_a_handshake() -> None:
    for name, request in (("meta", hub()), ("x", get(crc_token="abc"))):
        assert handshake(preset(name), changed(request, method="POST"), [SECRET], NOW, [TOKEN]) is None


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_is_never_echoed(value: object) -> None:
    documents = {
        "slack": {"type": "url_verification", "challenge": value},
        "zoom": {"event": "endpoint.url_validation", "payload": {"plainToken": value}},
        "twitch": {"challenge": value},
    }
    for name, document in documents.items():
        with pytest.raises(SignatureInvalid):
            answered(name, document)
    if isinstance(value, str):
        for scheme, request in (("meta", hub(number=value)), ("x", get(crc_token=value))):
            with pytest.raises(SignatureInvalid):
                handshake(preset(scheme), request, [SECRET], NOW, [TOKEN])


def test_no_answer_can_be_taken_for_a_page() -> None:
    answer = handshake(preset("meta"), hub(), [SECRET], NOW, [TOKEN])
    assert answer is not None
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "html" not in answer.headers["content-type"]


def test_signed_challenge_with_a_wrong_signature_never_reaches_an_answer() -> None:
    scheme = preset("zoom")
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}'
    request = changed(deliver(scheme, SECRET, URL, b"{}", NOW), body=body)
    assert refusal(scheme, request, [SECRET]) is RefusalReason.MISMATCH


def test_handshake_of_x_signs_nothing_that_verifies_as_an_event() -> None:
    """X signs bodies and tokens alike, so whoever may ask for a token must not get the signature of a body."""
    scheme = preset("x")
    for body in ("1", "true", "null", "12e3", "a" * 256, '{"a":1}', "[1]", '"x"'):
        try:
            answer = handshake(scheme, get(crc_token=body), [SECRET], NOW)
        except SignatureInvalid:
            continue
        assert answer is not None
        signature = json.loads(answer.body)["response_token"]
        forged = WebhookRequest.build("POST", URL, {"x-twitter-webhooks-signature": signature}, body.encode())
        assert refusal(scheme, forged, [SECRET]) is RefusalReason.MALFORMED


def test_ordinary_requests_are_no_challenges() -> None:
    for scheme in SCHEMES.values():
        request = delivery(scheme)
        verified = verify(scheme, request, [secret_of(scheme)], NOW)
        assert challenge(scheme, request, verified) is None
        assert handshake(scheme, request, [SECRET], NOW, [TOKEN]) is None
        assert handshake(scheme, get(other="1"), [SECRET], NOW, [TOKEN]) is None
    assert answered("twitch", {"challenge": "word", "event": {}}) is None


@pytest.mark.parametrize("name", ["dropbox", "nylas"])
def test_dropbox_and_nylas_get_their_challenge_back_and_nothing_that_a_browser_would_run(name: str) -> None:
    scheme = preset(name)
    answer = handshake(scheme, get(challenge="abc-123"), [SECRET], NOW)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"abc-123")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for odd in ("<script>", "a b", "x" * 257, '{"a":1}', ""):
        with pytest.raises(SignatureInvalid):
            handshake(scheme, get(challenge=odd), [SECRET], NOW)


FORM = {"content-type": "application/x-www-form-urlencoded"}


def post(body: bytes = b"", headers: dict[str, str] | None = None, **parameters: str) -> WebhookRequest:
    return WebhookRequest.build("POST", "https://h.example/hook/x?" + urlencode(parameters), headers or {}, body)


def test_trello_is_told_that_there_is_something() -> None:
    request = WebhookRequest.build("HEAD", URL)
    assert handshake(preset("trello"), request, (), NOW) == ChallengeResponse(200, "text/plain; charset=utf-8", b"")
    for method in ("GET", "POST", "OPTIONS"):
        assert handshake(preset("trello"), changed(request, method=method), (), NOW) is None


def test_graph_gets_its_sentence_back_and_no_markup() -> None:
    asked = "Validation: Testing client application reachability for subscription Request-Id: 1a-2b"
    answer = handshake(preset("microsoft_graph"), post(validationToken=asked), (), NOW)
    assert answer == ChallengeResponse(200, "text/plain; charset=utf-8", asked.encode())
    assert answer.headers["x-content-type-options"] == "nosniff"
    hostile = [
        "<script>alert(1)</script>",
        "a\r\nset-cookie: x=1",
        '{"a": 1}',
        "",
        "x" * 513,
        "\u00fc",
        "&lt;",
        "a'b",
        "%3C",
    ]
    for text in hostile:
        with pytest.raises(SignatureInvalid):
            handshake(preset("microsoft_graph"), post(validationToken=text), (), NOW)
    assert handshake(preset("microsoft_graph"), post(b"{}", validationToken="a"), (), NOW) is None
    assert handshake(preset("microsoft_graph"), get(validationToken="a"), (), NOW) is None


@pytest.mark.parametrize(
    "body", [b"", b"webhook_id=", b"webhook_id=1&x=2", b"webhook_id=x", b"webhook_id=" + b"1" * 13]
)
def test_only_woocommerces_ping_is_answered_unsigned(body: bytes) -> None:
    scheme = preset("woocommerce")
    assert asks_anybody(scheme, post(b"webhook_id=7", FORM))
    assert not asks_anybody(scheme, post(body, FORM))
    assert not asks_anybody(scheme, post(b"webhook_id=7", {"content-type": "application/json"}))
    assert not asks_anybody(scheme, post(b"webhook_id=7", {**FORM, "x-wc-webhook-signature": "x"})), (
        "an event is proven"
    )


def event_grid(document: object, method: str = "POST", **headers: str) -> ChallengeResponse | None:
    scheme, url = preset("azure_event_grid"), f"{URL}&token={secret_of(preset('azure_event_grid')).value}"
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = WebhookRequest.build(method, url, given, json.dumps(document).encode())
    return challenge(scheme, request, verify(scheme, request, [secret_of(scheme)], NOW))


def test_event_grid_gets_its_code_and_its_permission() -> None:
    asked = {"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationCode": "512d-38b6"}}
    answer = event_grid([asked])
    assert answer is not None
    assert json.loads(answer.body) == {"validationResponse": "512d-38b6"}
    assert event_grid([{**asked, "eventType": "Microsoft.Storage.BlobCreated"}]) is None
    assert event_grid([asked, asked]) is None
    assert event_grid({}) is None
    for code in HOSTILE:
        with pytest.raises(SignatureInvalid):
            event_grid([{**asked, "data": {"validationCode": code}}])
    granted = event_grid(None, "OPTIONS", webhook_request_origin="eventgrid.azure.net")
    assert granted is not None
    assert granted.headers["webhook-allowed-origin"] == "eventgrid.azure.net"
    assert (granted.headers["allow"], granted.body) == ("POST", b"")
    for origin in ("", "a b", "a\r\nx: 1", "*", "<a>", "x" * 254):
        with pytest.raises(SignatureInvalid):
            event_grid(None, "OPTIONS", webhook_request_origin=origin)
