"""Each scheme against its provider's own library, or against the formula where the provider has none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import types
from datetime import UTC, datetime, tzinfo
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

import pytest

from millrace.signatures import Secret, WebhookRequest, preset, verify
from millrace.signatures.challenges import could_be_crc_token
from millrace.signatures.signing import deliver, sign
from tests.signatures.cases import NOW, SHARED, URL, binaries, changed, refusal, secret_of, texts, with_header

SECONDS = NOW // 1000
RAW = Secret("current", "a plain secret, ünicode")


def tampered(text: str) -> str:
    return text + " " if text else "x"


def flipped(signature: str) -> str:
    """The signature with its last digit but one changed."""
    return signature[:-2] + ("A" if signature[-2] != "A" else "B") + signature[-1]


class FixedDatetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW / 1000, tz)


def test_stripe_agrees_with_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import stripe._webhook

    monkeypatch.setattr(stripe._webhook, "time", types.SimpleNamespace(time=lambda: NOW / 1000))
    library, scheme = stripe._webhook.WebhookSignature, preset("stripe")

    def library_accepts(text: str, header: str) -> bool:
        try:
            return bool(library.verify_header(text, header, RAW.value, 300))
        except stripe.SignatureVerificationError:
            return False

    for text in texts(250, seed=1):
        header = library.generate_signature_header(text, RAW.value, SECONDS)
        assert sign(scheme, RAW, text.encode(), NOW) == {"stripe-signature": header}
        request = WebhookRequest.build("POST", URL, {"Stripe-Signature": header}, text.encode())
        assert refusal(scheme, request, [RAW]) is None
        broken = changed(request, body=tampered(text).encode())
        assert (library_accepts(text, header), library_accepts(tampered(text), header)) == (True, False)
        assert refusal(scheme, broken, [RAW]) is not None
        for odd in (flipped(header), header.replace("v1=", "v0="), header.replace(f"t={SECONDS}", f"t={SECONDS - 1}")):
            assert not library_accepts(text, odd)
            assert refusal(scheme, with_header(request, "stripe-signature", odd), [RAW]) is not None


@pytest.mark.parametrize("name", ["standard_webhooks", "svix"])
def test_standard_webhooks_agrees_with_its_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import standardwebhooks.webhooks as inner
    import svix.webhooks

    monkeypatch.setattr(inner, "datetime", FixedDatetime)
    # The one library holds the other: Svix made the standard.
    library: Any = inner.Webhook(SHARED) if name == "standard_webhooks" else svix.webhooks.Webhook(SHARED)
    scheme, secret = preset(name), Secret("current", SHARED)

    def library_accepts(text: str, headers: dict[str, str]) -> bool:
        try:
            inner_library = library if name == "standard_webhooks" else library._inner
            renamed = {key.replace("svix-", "webhook-"): value for key, value in headers.items()}
            if name == "svix":
                library.verify(text, headers)
            inner_library.verify(text, renamed, json_parse=False)
        except inner.WebhookVerificationError:
            return False
        return True

    for text in texts(250, seed=2):
        made = sign(scheme, secret, text.encode(), NOW, delivery_id="msg_1")
        signature = next(value for key, value in made.items() if key.endswith("signature"))
        assert signature == library.sign("msg_1", datetime.fromtimestamp(SECONDS, UTC), text)
        assert library_accepts(text, made)
        assert not library_accepts(tampered(text), made)
        request = WebhookRequest.build("POST", URL, made, text.encode())
        assert refusal(scheme, request) is None
        assert refusal(scheme, changed(request, body=tampered(text).encode())) is not None


def test_slack_agrees_with_its_library() -> None:
    from slack_sdk.signature import Clock, SignatureVerifier

    class SlackClock(Clock):
        def now(self) -> float:
            return NOW / 1000

    library = SignatureVerifier(RAW.value, SlackClock())
    scheme = preset("slack")
    for text in texts(250, seed=3):
        made = sign(scheme, RAW, text.encode(), NOW)
        assert made["x-slack-signature"] == library.generate_signature(timestamp=str(SECONDS), body=text)
        for body in (text, tampered(text)):
            for headers in (made, {**made, "x-slack-request-timestamp": str(SECONDS - 301)}):
                request = WebhookRequest.build("POST", URL, headers, body.encode())
                assert (refusal(scheme, request, [RAW]) is None) == library.is_valid_request(body, headers)


def test_square_agrees_with_its_library() -> None:
    from square.utils.webhooks_helper import verify_signature

    scheme = preset("square")
    for text in texts(250, seed=4):
        header = sign(scheme, RAW, text.encode(), NOW, url=URL)["x-square-hmacsha256-signature"]
        for body, url in ((text, URL), (tampered(text), URL), (text, URL + "&x=1")):
            request = WebhookRequest.build("POST", url, {"x-square-hmacsha256-signature": header}, body.encode())
            accepted = verify_signature(
                request_body=body, signature_header=header, signature_key=RAW.value, notification_url=url
            )
            # The library refuses an empty body out of hand; Square never sends one.
            assert (refusal(scheme, request, [RAW]) is None) == (accepted or (not body and url == URL))


class Fields(dict[str, list[str]]):
    """A form as web frameworks hand it to Twilio's library."""

    def getlist(self, name: str) -> list[str]:
        return self[name]


TWILIO_URLS = [URL, "https://h.example/x", "https://h.example:443/x?y=%20", "https://h.example:8443/x", "http://h/x"]


def test_twilio_forms_agree_with_its_library() -> None:
    from twilio.request_validator import RequestValidator

    library, scheme = RequestValidator(RAW.value), preset("twilio")
    words = [text[:40] for text in texts(400, seed=5)]
    form = {"content-type": "application/x-www-form-urlencoded"}
    for index in range(200):
        url = TWILIO_URLS[index % len(TWILIO_URLS)]
        fields = [(f"k{words[index + step][:5]}", words[index + 2 * step]) for step in range(index % 6)]
        fields += fields[:2]
        body = urlencode(fields).encode()
        parsed = Fields(parse_qs(body.decode(), keep_blank_values=True))
        for signed_url in library_urls(url):
            header = library.compute_signature(signed_url, parsed)
            request = WebhookRequest.build("POST", url, {**form, "X-Twilio-Signature": header}, body)
            assert refusal(scheme, request, [RAW]) is None
            assert library.validate(url, parsed, header)
            extra = changed(request, body=body + (b"&" if body else b"") + b"z=1")
            assert refusal(scheme, extra, [RAW]) is not None


def library_urls(url: str) -> list[str]:
    """The URL as given and as the library would also sign it."""
    from urllib.parse import urlparse

    from twilio.request_validator import add_port, remove_port

    return [url, add_port(urlparse(url)), remove_port(urlparse(url))]


def test_twilio_json_agrees_with_its_library() -> None:
    from twilio.request_validator import RequestValidator

    library, scheme = RequestValidator(RAW.value), preset("twilio")
    for text in texts(200, seed=6):
        request = deliver(scheme, RAW, URL, text.encode(), NOW)
        header = request.headers.one("x-twilio-signature")
        assert library.validate(request.url, text, header)
        assert refusal(scheme, request, [RAW]) is None
        assert not library.validate(request.url, tampered(text), header)
        assert refusal(scheme, changed(request, body=tampered(text).encode()), [RAW]) is not None


def hex256(key: bytes, message: bytes) -> str:
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def base256(key: bytes, message: bytes) -> str:
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()


STAMP = str(SECONDS).encode()

#: The table of schemes once more, written as one formula each.
FORMULAS = {
    "standard_webhooks": lambda key, body: {
        "webhook-id": "d",
        "webhook-timestamp": STAMP.decode(),
        "webhook-signature": "v1," + base256(base64.b64decode(SHARED[6:]), b"d." + STAMP + b"." + body),
    },
    "stripe": lambda key, body: {"stripe-signature": f"t={SECONDS},v1={hex256(key, STAMP + b'.' + body)},v0=00"},
    "github": lambda key, body: {"x-hub-signature-256": "sha256=" + hex256(key, body)},
    "slack": lambda key, body: {
        "x-slack-request-timestamp": STAMP.decode(),
        "x-slack-signature": "v0=" + hex256(key, b"v0:" + STAMP + b":" + body),
    },
    "pagerduty": lambda key, body: {"x-pagerduty-signature": f"v1={'0' * 64},v1={hex256(key, body)}"},
    "shopify": lambda key, body: {"x-shopify-hmac-sha256": base256(key, body)},
    "zoom": lambda key, body: {
        "x-zm-request-timestamp": STAMP.decode(),
        "x-zm-signature": "v0=" + hex256(key, b"v0:" + STAMP + b":" + body),
    },
    "square": lambda key, body: {"x-square-hmacsha256-signature": base256(key, URL.encode() + body)},
    "meta": lambda key, body: {"x-hub-signature-256": "sha256=" + hex256(key, body)},
    "x": lambda key, body: {"x-twitter-webhooks-signature": "sha256=" + base256(key, body)},
    "twitch": lambda key, body: {
        "twitch-eventsub-message-id": "d",
        "twitch-eventsub-message-timestamp": "2026-03-02T09:14:07.250123456Z",
        "twitch-eventsub-message-signature": "sha256=" + hex256(key, b"d2026-03-02T09:14:07.250123456Z" + body),
    },
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_holds_for_text_and_binary_of_every_size(name: str) -> None:
    scheme, secret = preset(name), secret_of(preset(name))
    bodies = [text.encode() for text in texts(150, seed=7)] + binaries(120, seed=8)
    for body in bodies:
        request = WebhookRequest.build("POST", URL, FORMULAS[name](secret.raw(), body), body)
        forgeable = name == "x" and could_be_crc_token(body)
        assert (refusal(scheme, request) is None) != forgeable
        assert refusal(scheme, changed(request, body=body + b"\x00")) is not None


def test_linear_formula_holds_with_its_time_in_the_body() -> None:
    scheme, secret = preset("linear"), secret_of(preset("linear"))
    for text in texts(200, seed=9):
        body = json.dumps({"webhookTimestamp": NOW, "data": text}).encode()
        request = WebhookRequest.build("POST", URL, {"Linear-Signature": hex256(secret.raw(), body)}, body)
        assert verify(scheme, request, [secret], NOW).signed_at_ms == NOW
        assert refusal(scheme, changed(request, body=body + b" ")) is not None
