"""The makers of published keys, played here: Amazon, PayPal, Google and Plaid with keys of our own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zlib import crc32

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from millrace.signatures import PublishedKeys, Scheme, WebhookRequest
from millrace.signatures.published import KeyAddress, KeysSilent

NOW = 1_772_442_847_250
TOPIC = "arn:aws:sns:eu-central-1:123456789012:mill"
SNS_CERTIFICATE = (
    "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem"
)
PAYPAL_CERTIFICATE = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77"
WEBHOOK_ID = "8PT597110X687430LKGECATA"
AUDIENCE, ACCOUNT = "https://hooks.example.com/hook/pubsub", "pusher@mill.iam.gserviceaccount.com"
#: What the secret of a webhook says, by provider.
MEANT_FOR_US = {
    "aws_sns": TOPIC,
    "paypal": WEBHOOK_ID,
    "google_pubsub": f"{AUDIENCE} {ACCOUNT}",
    "plaid": "client-1:a secret of Plaid",
    "plaid_sandbox": "client-1:a secret of Plaid",
}


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2048)


@cache
def ec_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def certificate(common_name: str = "sns.amazonaws.com", begin: int = 10**12, end: int = 4 * 10**12) -> bytes:
    """A certificate of our RSA key, signed by itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    key = rsa_key()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(begin / 1000, UTC))
        .not_valid_after(datetime.fromtimestamp(end / 1000, UTC))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def jwk(key: Any, key_id: str, **more: Any) -> dict[str, Any]:
    """The public half of a key, as a set of keys holds it."""
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": key_id, "use": "sig", **more}


def google_pem() -> str:
    """Google's key as its own library takes it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return rsa_key().public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def documents() -> dict[str, bytes]:
    """What lies at the addresses of the makers."""
    plaid = json.dumps({"key": jwk(ec_key(), "p1", alg="ES256", created_at=1, expired_at=None)}).encode()
    return {
        SNS_CERTIFICATE: certificate(),
        PAYPAL_CERTIFICATE: certificate("messageverificationcerts.paypal.com"),
        "https://www.googleapis.com/oauth2/v3/certs": json.dumps(
            {"keys": [jwk(rsa_key(), "g1", alg="RS256")]}
        ).encode(),
        "https://production.plaid.com/webhook_verification_key/get": plaid,
        "https://sandbox.plaid.com/webhook_verification_key/get": plaid,
    }


class Makers:
    """Stands for the network: answers what it holds, counts what it is asked, and can be down."""

    def __init__(self, **more: bytes) -> None:
        self.held: dict[str, bytes] = {**documents(), **more}
        self.asked: list[KeyAddress] = []
        self.down = False

    def __call__(self, address: KeyAddress) -> bytes | None:
        self.asked.append(address)
        if self.down:
            raise KeysSilent
        return self.held.get(address.url)


def keys_of(makers: Makers, now: int = NOW) -> PublishedKeys:
    return PublishedKeys(makers, lambda: now)


def published_delivery(
    scheme: Scheme, url: str, body: bytes, now: int, headers: Mapping[str, str] | None = None, delivery_id: str = "d-1"
) -> WebhookRequest:
    """A whole request, signed as the maker of the keys does."""
    given = {"content-type": "application/json", **(headers or {})}
    if scheme.name == "aws_sns":
        return WebhookRequest.build("POST", url, given, sns_envelope(body, now, delivery_id))
    if scheme.name == "paypal":
        return WebhookRequest.build("POST", url, given | paypal_headers(body, now, delivery_id), body)
    token = google_token(now) if scheme.name == "google_pubsub" else plaid_token(body, now)
    return WebhookRequest.build("POST", url, given | {scheme.names[0].signature: scheme.prefix + token}, body)


def iso(now: int) -> str:
    return datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sns_envelope(body: bytes, now: int = NOW, message_id: str = "d-1", version: str = "2", **more: Any) -> bytes:
    """Amazon's JSON around a message; a body that is an envelope already is signed anew."""
    try:
        given = json.loads(body)
        given = given if isinstance(given, dict) and "Type" in given else None
    except ValueError:
        given = None
    document: dict[str, Any] = given or {"Type": "Notification", "Message": body.decode("utf-8", "replace")}
    document |= {"MessageId": message_id, "TopicArn": TOPIC, "Timestamp": iso(now), "SignatureVersion": version}
    document |= {"SigningCertURL": SNS_CERTIFICATE, **more}
    names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    signed = "".join(f"{name}\n{document[name]}\n" for name in names if document.get(name) is not None).encode()
    used = hashes.SHA1() if version == "1" else hashes.SHA256()  # noqa: S303
    proof = rsa_key().sign(signed, padding.PKCS1v15(), used)
    return json.dumps(document | {"Signature": base64.b64encode(proof).decode()}).encode()


def paypal_headers(
    body: bytes, now: int = NOW, delivery_id: str = "d-1", webhook_id: str = WEBHOOK_ID
) -> dict[str, str]:
    signed = f"{delivery_id}|{iso(now)}|{webhook_id}|{crc32(body)}".encode()
    proof = rsa_key().sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return {
        "paypal-transmission-id": delivery_id,
        "paypal-transmission-time": iso(now),
        "paypal-transmission-sig": base64.b64encode(proof).decode(),
        "paypal-cert-url": PAYPAL_CERTIFICATE,
        "paypal-auth-algo": "SHA256withRSA",
    }


def google_token(now: int = NOW, key: Any = None, headers: Mapping[str, Any] | None = None, **more: Any) -> str:
    claims = {
        "iss": "https://accounts.google.com",
        "aud": AUDIENCE,
        "email": ACCOUNT,
        "email_verified": True,
        "iat": now // 1000 - 60,
        "exp": now // 1000 + 3540,
        "sub": "113774264463038321964",
    }
    left = {name: value for name, value in {**claims, **more}.items() if value is not None}
    return jwt.encode(left, key or rsa_key(), "RS256", headers={"kid": "g1", **(headers or {})})


def plaid_token(body: bytes, now: int = NOW, key: Any = None, key_id: str = "p1", **more: Any) -> str:
    claims = {"iat": now // 1000, "request_body_sha256": hashlib.sha256(body).hexdigest(), **more}
    left = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(left, key or ec_key(), "ES256", headers={"kid": key_id})
