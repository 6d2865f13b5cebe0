"""Amazon SNS and PayPal: what a certificate proves, and every way around it that was thought of."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from millrace.signatures import RefusalReason, Secret, WebhookRequest, idempotency_key, preset, verify
from millrace.signatures.certified import read_certificate
from millrace.signatures.errors import KeysUnavailable
from tests.signatures.cases import NOW, URL, changed, delivery, refusal, secret_of, with_header
from tests.signatures.issuers import (
    PAYPAL_CERTIFICATE,
    SNS_CERTIFICATE,
    TOPIC,
    Makers,
    certificate,
    ec_key,
    keys_of,
    paypal_headers,
    rsa_key,
    sns_envelope,
)

SNS, PAYPAL = preset("aws_sns"), preset("paypal")
CONFIRMATION = {"Type": "SubscriptionConfirmation", "Message": "m", "Token": "t", "SubscribeURL": "https://x"}


def sns(body: bytes) -> WebhookRequest:
    return WebhookRequest.build("POST", URL, {"content-type": "text/plain; charset=UTF-8"}, body)


def altered(**fields: Any) -> WebhookRequest:
    """A signed envelope with some fields replaced afterwards; None removes one."""
    document = json.loads(sns_envelope(b"{}", Subject="s")) | fields
    return sns(json.dumps({name: value for name, value in document.items() if value is not None}).encode())


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("body", [b"text", b'{"a": "\\n\xc3\xbc"}', b"", json.dumps(CONFIRMATION).encode()])
def test_amazons_signatures_of_both_versions_are_taken(version: str, body: bytes) -> None:
    request = sns(sns_envelope(body, version=version))
    verified = verify(SNS, request, [secret_of(SNS)], NOW, keys_of(Makers()))
    assert (verified.delivery_id, verified.delivery_id_signed) == ("d-1", True)
    assert idempotency_key(SNS, request, verified) == "aws_sns:id:d-1"


@pytest.mark.parametrize(
    "fields",
    [
        {"Message": "x"}, {"MessageId": "d-2"}, {"Subject": "x"}, {"Subject": None}, {"Type": None},
        {"Type": "SubscriptionConfirmation"}, {"Type": "Other"}, {"Type": ["Notification"]},
        {"TopicArn": TOPIC + "x"}, {"TopicArn": None},
        {"TopicArn": "arn:aws:sns:us-east-1:123456789012:mill"}, {"Signature": ""}, {"Signature": "AAAA"},
        {"Signature": None}, {"SignatureVersion": "1"}, {"SignatureVersion": "3"},
        {"SignatureVersion": None}, {"SigningCertURL": None}, {"Message": {"a": 1}}, {"Message": None},
        {"Timestamp": "2026-03-02T09:14:08.250Z"},
    ],
    ids=str,
)  # fmt: skip
def test_every_change_of_an_envelope_is_refused(fields: dict[str, Any]) -> None:
    assert refusal(SNS, altered()) is None
    assert refusal(SNS, altered(**fields)) is not None


@pytest.mark.parametrize(
    "address",
    [
        SNS_CERTIFICATE.replace("https", "http"),
        SNS_CERTIFICATE.replace("sns.eu", "s3.eu"),
        SNS_CERTIFICATE.replace("amazonaws.com", "amazonaws.com.evil.example"),
        SNS_CERTIFICATE.replace("amazonaws.com", "amazonaws.com:8443"),
        SNS_CERTIFICATE.replace("https://", "https://evil.example/"),
        SNS_CERTIFICATE.replace("https://", "https://evil.example@"),
        SNS_CERTIFICATE.replace("https://", "https://x."),
        SNS_CERTIFICATE.replace("sns.eu-central-1", "sns.eu-central-1.evil"),
        SNS_CERTIFICATE.replace("eu-central-1", "us-east-1"),
        SNS_CERTIFICATE + "?x.pem",
        SNS_CERTIFICATE + "#x.pem",
        SNS_CERTIFICATE + "\n",
        SNS_CERTIFICATE.replace("/Simple", "/../Simple"),
        SNS_CERTIFICATE.replace("/SimpleNotificationService-", "/bucket/SimpleNotificationService-"),
        "https://sns.eu-central-1.amazonaws.com/?Action=Publish&x=SimpleNotificationService-12345678.pem",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_certificate_elsewhere_is_not_even_fetched(address: str) -> None:
    makers = Makers(**{address: certificate()})
    assert refusal(SNS, sns(sns_envelope(b"{}", SigningCertURL=address)), keys=keys_of(makers)) is not None
    assert makers.asked == []


def test_other_customers_topics_are_refused_before_anything_is_fetched() -> None:
    makers = Makers()
    mine, other = Secret("mine", TOPIC), Secret("other", TOPIC + "-other")
    assert refusal(SNS, altered(), [other], keys=keys_of(makers)) is RefusalReason.MISMATCH
    assert makers.asked == []
    assert verify(SNS, altered(), [other, mine], NOW, keys_of(makers)).secret_name == "mine"
    lapsed = Secret("mine", TOPIC, None, NOW - 1)
    assert refusal(SNS, altered(), [lapsed, other], keys=keys_of(makers)) is RefusalReason.SECRET_NOT_LIVE


def test_an_old_envelope_and_one_from_the_future_are_refused_unfetched() -> None:
    makers = Makers()
    for moment in (NOW - 7_200_251, NOW + 300_001):
        reason = refusal(SNS, sns(sns_envelope(b"{}", moment)), keys=keys_of(makers))
        assert reason is RefusalReason.TIMESTAMP_OUTSIDE_TOLERANCE
    assert makers.asked == []


@pytest.mark.parametrize(("begin", "end"), [(NOW + 60_000, NOW + 10**9), (NOW - 10**9, NOW - 60_000)])
@pytest.mark.parametrize("scheme", [SNS, PAYPAL], ids=["sns", "paypal"])
def test_a_certificate_outside_its_time_proves_nothing(scheme: Any, begin: int, end: int) -> None:
    address, name = (SNS_CERTIFICATE, "sns.x") if scheme is SNS else (PAYPAL_CERTIFICATE, "x.paypal.com")
    makers = Makers(**{address: certificate(name, begin, end)})
    assert refusal(scheme, delivery(scheme), keys=keys_of(makers)) is RefusalReason.MISMATCH


def test_paypals_certificate_must_bear_its_name() -> None:
    makers = Makers(**{PAYPAL_CERTIFICATE: certificate("paypal.com.evil.example")})
    assert refusal(PAYPAL, delivery(PAYPAL), keys=keys_of(makers)) is RefusalReason.MISMATCH


def test_paypal_signs_id_time_webhook_and_a_checksum() -> None:
    request = delivery(PAYPAL)
    verified = verify(PAYPAL, request, [secret_of(PAYPAL)], NOW, keys_of(Makers()))
    assert idempotency_key(PAYPAL, request, verified) == "paypal:id:d-1"
    for name, value in (
        ("paypal-transmission-id", "d-2"),
        ("paypal-transmission-time", "2026-03-02T09:14:08.250Z"),
        ("paypal-transmission-sig", base64.b64encode(b"x" * 256).decode()),
        ("paypal-auth-algo", "SHA1withRSA"),
        ("paypal-auth-algo", "none"),
        ("paypal-cert-url", PAYPAL_CERTIFICATE.replace("api.paypal.com", "api.paypal.com.evil.example")),
        ("paypal-cert-url", PAYPAL_CERTIFICATE.replace("api.", "evil.")),
        ("paypal-cert-url", PAYPAL_CERTIFICATE.replace("/certs/", "/certs/../")),
    ):
        assert refusal(PAYPAL, with_header(request, name, value)) is not None, name
    assert refusal(PAYPAL, changed(request, body=request.body + b" ")) is RefusalReason.MISMATCH
    foreign = changed(request, headers=list(paypal_headers(request.body, webhook_id="ANOTHER").items()))
    assert refusal(PAYPAL, foreign) is RefusalReason.MISMATCH


@pytest.mark.parametrize("scheme", [SNS, PAYPAL], ids=["sns", "paypal"])
def test_a_certificate_that_does_not_come_is_our_fault_and_one_that_is_not_there_the_senders(scheme: Any) -> None:
    makers = Makers()
    makers.down = True
    with pytest.raises(KeysUnavailable):
        verify(scheme, delivery(scheme), [secret_of(scheme)], NOW, keys_of(makers))
    makers.down, makers.held = False, {}
    assert refusal(scheme, delivery(scheme), keys=keys_of(makers)) is RefusalReason.MISMATCH


def _pem(key: Any) -> bytes:
    made = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return bytes(made)


def test_only_rsa_certificates_of_a_safe_size_are_read() -> None:
    from cryptography import x509

    short = rsa.generate_private_key(65_537, 1024)  # noqa: S505
    name = x509.Name([])
    for key in (short, ec.generate_private_key(ec.SECP256R1())):
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        loaded = x509.load_pem_x509_certificate(certificate())
        begin, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
        made = builder.serial_number(1).not_valid_before(begin).not_valid_after(end).sign(rsa_key(), hashes.SHA256())
        with pytest.raises(ValueError, match="no RSA key"):
            read_certificate(made.public_bytes(serialization.Encoding.PEM))
    for odd in (b"", b"{}", b"<html>", _pem(ec_key())):
        with pytest.raises(ValueError):  # noqa: PT011
            read_certificate(odd)
