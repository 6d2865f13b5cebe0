"""Secrets with windows, keys of the wrong kind, and what fails closed."""

from __future__ import annotations

import hmac
from base64 import b64encode
from unittest import mock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millrace.signatures import ConfigurationMissing, RefusalReason, Scheme, Secret, WebhookRequest, preset, verify
from millrace.signatures.signing import deliver, sign
from tests.signatures.cases import NOW, OTHER, SCHEMES, SHARED, URL, changed, delivery, refusal, with_header

every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())

OLD, NEW = Secret("old", OTHER, None, NOW + 10), Secret("new", SHARED, NOW - 10, None)


@every_scheme
def test_both_secrets_of_a_rotation_are_accepted_and_named(scheme: Scheme) -> None:
    for secret in (OLD, NEW):
        for order in ([OLD, NEW], [NEW, OLD]):
            assert verify(scheme, delivery(scheme, secret=secret), order, NOW).secret_name == secret.name


@every_scheme
def test_secret_counts_only_inside_its_window(scheme: Scheme) -> None:
    always = Secret("always", "whsec_" + b64encode(b"another key that is always live").decode())
    windowed = Secret("windowed", SHARED, NOW - 5, NOW + 5)
    request = delivery(scheme, secret=windowed)
    found = {offset: refusal(scheme, request, [always, windowed], NOW + offset) for offset in (-6, -5, 0, 5, 6)}
    assert found == {-6: RefusalReason.SECRET_NOT_LIVE, -5: None, 0: None, 5: None, 6: RefusalReason.SECRET_NOT_LIVE}


@every_scheme
def test_without_a_live_secret_nothing_is_verified_and_it_is_our_fault(scheme: Scheme) -> None:
    request = delivery(scheme)
    for secrets in ([], [Secret("past", SHARED, None, NOW - 1)], [Secret("later", SHARED, NOW + 1, None)]):
        with pytest.raises(ConfigurationMissing) as missing:
            verify(scheme, request, secrets, NOW)
        assert SHARED not in str(missing.value) + missing.value.problem


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


def test_shopify_old_secret_signs_for_an_hour_and_then_not() -> None:
    scheme = preset("shopify")
    hour = 3_600_000
    old = Secret("old", OTHER, None, NOW + hour)
    request = delivery(scheme, secret=old)
    assert verify(scheme, request, [NEW, old], NOW + hour).secret_name == "old"
    assert refusal(scheme, request, [NEW, old], NOW + hour + 1) is RefusalReason.SECRET_NOT_LIVE


@pytest.mark.parametrize("name", ["standard_webhooks", "stripe", "pagerduty", "generic_list"])
def test_delivery_signed_with_both_secrets_passes_with_either(name: str) -> None:
    scheme = SCHEMES[name]
    request = deliver(scheme, [OLD, NEW], URL, b"{}", NOW, delivery_id="d-1")
    for secrets in ([OLD], [NEW], [OLD, NEW]):
        assert verify(scheme, request, secrets, NOW).secret in secrets


@every_scheme
def test_every_secret_is_tried_whatever_matched_before(scheme: Scheme) -> None:
    """Otherwise the time of an answer tells which secret, or which signature, was right."""
    request = delivery(scheme, secret=NEW)
    counts = []
    for secrets in ([NEW, OLD], [OLD, NEW]):
        with mock.patch(
            "millrace.signatures.verification.hmac.compare_digest", side_effect=hmac.compare_digest
        ) as compared:
            verify(scheme, request, secrets, NOW)
        counts.append(compared.call_count)
    assert counts[0] == counts[1] >= 2


PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_TEXT = "whpk_" + b64encode(PRIVATE.public_key().public_bytes_raw()).decode()
PRIVATE_TEXT = "whsk_" + b64encode(bytes(range(32))).decode()


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


def test_signing_without_a_secret_an_id_or_a_url_that_is_signed_is_refused() -> None:
    for name in ("github", "standard_webhooks", "square", "twilio"):
        with pytest.raises(ConfigurationMissing):
            sign(preset(name), [] if name == "github" else NEW, b"{}", NOW)
