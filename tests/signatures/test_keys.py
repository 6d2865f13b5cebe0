"""Secrets: what counts as one, and which key verifies what."""

from __future__ import annotations

import hmac
import pickle
from base64 import b64encode
from unittest import mock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millrace.signatures import (
    ConfigurationMissing,
    RefusalReason,
    Secret,
    WebhookRequest,
    preset,
    verify,
)
from millrace.signatures.signing import sign
from tests.signatures.cases import NOW, SHARED, URL, changed, delivery, refusal, with_header
from tests.signatures.source import HIDDEN

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


PUBLIC_TEXT = "whpk_" + b64encode(PRIVATE.public_key().public_bytes_raw()).decode()


PRIVATE_TEXT = "whsk_" + b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize("value", ["", " ", "\n", "\t \r\n", "a\x00b", "line\nline", "\ud800"])
def test_empty_or_unprintable_secret_cannot_exist(value: str) -> None:
    with pytest.raises(ConfigurationMissing):
        Secret("blank", value)


@pytest.mark.parametrize(
    "value",
    ["whsec_", "whsec_====", "whsec_not base64", "whsec_AA!!AA!!", "whsec_ü", "whpk_", "whpk_AAAA", "whsk_AAAA"],
)
def test_standard_webhooks_key_of_wrong_form_fails_closed(value: str) -> None:
    scheme = preset("standard_webhooks")
    request = delivery(scheme)
    forged = hmac.digest(b"", b"d-1.%d." % (NOW // 1000) + request.body, "sha256")
    value_sent = f"v1,{b64encode(forged).decode()} v1a,{b64encode(b'0' * 64).decode()}"
    with pytest.raises(ConfigurationMissing):
        verify(scheme, with_header(request, "webhook-signature", value_sent), [Secret("odd", value)], NOW)


def test_ed25519_signature_is_verified_with_the_public_key() -> None:
    scheme = preset("standard_webhooks")
    public, private = Secret("public", PUBLIC_TEXT), Secret("private", PRIVATE_TEXT)
    body = b'{"test": 2432232314}'
    headers = sign(scheme, private, body, NOW, delivery_id="d-1")
    by_hand = PRIVATE.sign(b"d-1.%d." % (NOW // 1000) + body)
    assert headers["webhook-signature"] == f"v1a,{b64encode(by_hand).decode()}"
    request = WebhookRequest.build("POST", URL, headers, body)
    assert verify(scheme, request, [public], NOW).secret_name == "public"
    assert verify(scheme, request, [Secret("shared", SHARED), public], NOW).secret_name == "public"
    assert refusal(scheme, changed(request, body=body + b" "), [public]) is RefusalReason.MISMATCH
    assert refusal(scheme, request, [Secret("shared", SHARED)]) is RefusalReason.MISMATCH
    for odd in ("v1a,", "v1a,AAAA", "v1a,!!!", "v1a," + b64encode(by_hand[:-1]).decode(), "v1a,ü"):
        assert refusal(scheme, with_header(request, "webhook-signature", odd), [public]) is RefusalReason.MISMATCH


def test_public_key_is_never_an_hmac_key() -> None:
    """Everyone knows the public key: an HMAC made with it proves nothing."""
    scheme = preset("standard_webhooks")
    public = Secret("public", PUBLIC_TEXT)
    message = b"d-1.%d.{}" % (NOW // 1000)
    for key in (PRIVATE.public_key().public_bytes_raw(), PUBLIC_TEXT.encode()):
        forged = b64encode(hmac.digest(key, message, "sha256")).decode()
        headers = {"webhook-id": "d-1", "webhook-timestamp": str(NOW // 1000), "webhook-signature": f"v1,{forged}"}
        assert refusal(scheme, WebhookRequest.build("POST", URL, headers, b"{}"), [public]) is RefusalReason.MISMATCH


def test_private_key_does_not_verify() -> None:
    scheme = preset("standard_webhooks")
    with pytest.raises(ConfigurationMissing) as missing:
        verify(scheme, delivery(scheme), [Secret("private", PRIVATE_TEXT)], NOW)
    assert "asymmetric" in missing.value.problem


def test_public_key_without_the_package_that_reads_it_fails_closed() -> None:
    scheme = preset("standard_webhooks")
    headers = sign(scheme, Secret("private", PRIVATE_TEXT), b"{}", NOW, delivery_id="d-1")
    request = WebhookRequest.build("POST", URL, headers, b"{}")
    with mock.patch.dict("sys.modules", {"cryptography.exceptions": None}), pytest.raises(ConfigurationMissing):
        verify(scheme, request, [Secret("public", PUBLIC_TEXT)], NOW)


def test_secret_can_be_compared_but_not_shown_by_a_dataclass_tool() -> None:
    secret = Secret("a", HIDDEN)
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301
    assert secret != Secret("a", "other")
