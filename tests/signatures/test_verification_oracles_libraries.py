"""Schemes of the table against their providers' own libraries."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from millrace.signatures import Secret, WebhookRequest, preset
from millrace.signatures.signing import deliver, sign
from tests.signatures.cases import NOW, URL, changed, refusal, secret_of, signer_of, texts

SECONDS = NOW // 1000
RAW = Secret("current", "a plain secret")


def documents(count: int, seed: int) -> list[str]:
    """Bodies that a library may parse."""
    return [json.dumps({"events": [], "data": text}, ensure_ascii=False) for text in texts(count, seed)]


def test_razorpay_agrees_with_its_library() -> None:
    razorpay = import_module("razorpay")
    utility, scheme = razorpay.Client(auth=("", "")).utility, preset("razorpay")
    for text in documents(100, seed=21):
        signature = sign(scheme, RAW, text.encode(), NOW)["x-razorpay-signature"]
        utility.verify_webhook_signature(text, signature, RAW.value)
        with pytest.raises(razorpay.errors.SignatureVerificationError):
            utility.verify_webhook_signature(text + " ", signature, RAW.value)


def test_gocardless_agrees_with_its_library() -> None:
    webhooks = import_module("gocardless_pro.webhooks")
    errors = import_module("gocardless_pro.errors")
    scheme = preset("gocardless")
    for text in documents(100, seed=22):
        signature = sign(scheme, RAW, text.encode(), NOW)["webhook-signature"]
        assert webhooks.parse(text.encode(), RAW.value, signature) == []
        with pytest.raises(errors.InvalidSignatureError):
            webhooks.parse(text.encode() + b" ", RAW.value, signature)


def test_easypost_agrees_with_its_library() -> None:
    util = import_module("easypost.util")
    errors = import_module("easypost.errors")
    scheme = preset("easypost")
    for text in documents(100, seed=23):
        signature = sign(scheme, RAW, text.encode(), NOW)["x-hmac-signature"]
        assert util.validate_webhook(text.encode(), {"X-Hmac-Signature": signature}, RAW.value) == json.loads(text)
        with pytest.raises(errors.SignatureVerificationError):
            util.validate_webhook(text.encode() + b" ", {"X-Hmac-Signature": signature}, RAW.value)


def test_adyen_agrees_with_its_library() -> None:
    util = import_module("Adyen.util")
    scheme = preset("adyen")
    secret = signer_of(scheme)
    for number, text in enumerate(texts(100, seed=24)):
        item: dict[str, Any] = {
            "additionalData": {},
            "pspReference": f"{number}",
            "merchantAccountCode": "Mill",
            "merchantReference": text,
            "amount": {"value": number, "currency": "EUR"},
            "eventCode": "AUTHORISATION",
            "success": "true",
        }
        if number % 2:
            item["originalReference"] = text[:5]
        body = json.dumps({"notificationItems": [{"NotificationRequestItem": item}]}).encode()
        request = deliver(scheme, secret, URL, body, NOW)
        assert refusal(scheme, request) is None
        assert util.is_valid_hmac_notification(json.loads(request.body), secret.value)
        altered = changed(request, body=request.body.replace(b'"true"', b'"false"'))
        assert refusal(scheme, altered) is not None
        assert not util.is_valid_hmac_notification(json.loads(altered.body), secret.value)


def test_discord_agrees_with_its_library() -> None:
    library = import_module("discord_interactions")
    scheme = preset("discord")
    public = secret_of(scheme).value
    for text in texts(60, seed=25):
        made = sign(scheme, signer_of(scheme), text.encode(), NOW)
        signature, stamp = made["x-signature-ed25519"], made["x-signature-timestamp"]
        assert library.verify_key(text.encode(), signature, stamp, public)
        assert not library.verify_key(text.encode() + b" ", signature, stamp, public)
        request = WebhookRequest.build("POST", URL, made, text.encode())
        assert refusal(scheme, request) is None
        assert refusal(scheme, changed(request, body=text.encode() + b" ")) is not None


def test_sendgrid_agrees_with_its_library() -> None:
    library = import_module("sendgrid.helpers.eventwebhook").EventWebhook(secret_of(preset("sendgrid")).value)
    scheme = preset("sendgrid")
    for text in texts(30, seed=26):
        made = sign(scheme, signer_of(scheme), text.encode(), NOW)
        signature, stamp = made[scheme.names[0].signature], made[scheme.names[0].timestamp]
        assert library.verify_signature(text, signature, stamp)
        assert not library.verify_signature(text + " ", signature, stamp)
        assert refusal(scheme, WebhookRequest.build("POST", URL, made, text.encode())) is None
