"""What the tests of signatures share: a fixed moment, a secret for each scheme, bodies of every kind."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from millrace.signatures import (
    PRESETS,
    PublishedKeys,
    RefusalReason,
    Scheme,
    Secret,
    SignatureInvalid,
    WebhookRequest,
    generic,
    verify,
)
from millrace.signatures.scheme import SignaturePlace
from millrace.signatures.signing import deliver
from tests.signatures.issuers import MEANT_FOR_US, Makers, keys_of, published_delivery

NOW = 1_772_442_847_250
URL = "https://hooks.example.com/hook/inbox?team=blue"

SHARED = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

GENERIC = {
    "generic": generic("X-Gate-Signature"),
    "generic_timed": generic(
        "X-Gate-Signature", prefix="sha512=", algorithm="sha512", encoding="base64", timestamp_header="X-Gate-Time"
    ),
    "generic_id": generic(
        "X-Gate-Signature",
        algorithm="sha1",
        encoding="hex_upper",
        timestamp_header="X-Gate-Time",
        timestamp_unit="milliseconds",
        id_header="X-Gate-Id",
        template="{id}|{timestamp}|{url}|{body}",
        tolerance_seconds=30,
    ),
    "generic_list": generic("X-Gate-Signature", prefix="v=", separator=","),
}

#: Schemes whose proof is a header over all of the body: every change of either must be refused.
SCHEMES = {
    name: scheme
    for name, scheme in {**PRESETS, **GENERIC}.items()
    if scheme.place is SignaturePlace.HEADER and not scheme.bearer and not scheme.published
}


def shape(scheme: Scheme) -> tuple[object, ...]:
    """What verification does with a scheme; two of one shape differ in names only."""
    parts = tuple(name for _, name in scheme.parts)
    timed = (scheme.timed, scheme.clock, bool(scheme.timestamp_field), bool(scheme.id_field), bool(scheme.id_headers))
    written = (scheme.layout, scheme.separator, bool(scheme.prefix), scheme.algorithm, scheme.encoding, scheme.key)
    return (*timed, *written, scheme.place, scheme.form, scheme.challenge, scheme.jwt, len(scheme.names), parts)


#: One scheme of each shape, for what takes long.
SHAPES = dict(reversed({shape(row): (name, row) for name, row in SCHEMES.items()}.values()))


def secret_of(scheme: Scheme, value: str = SHARED, name: str = "current") -> Secret:
    """What verifies a scheme's signatures: for a key pair the public half, made from the value."""
    return Secret(name, _written(scheme, value)[1])


def signer_of(scheme: Scheme, value: str = SHARED, name: str = "current") -> Secret:
    """What signs: the same secret, or the private half."""
    return Secret(name, _written(scheme, value)[0])


@cache
def _written(scheme: Scheme, value: str) -> tuple[str, str]:
    if scheme.published:
        meant = MEANT_FOR_US[scheme.name] if value == SHARED else f"{value} {value}:{value}"
        return meant, meant
    seed = hashlib.sha256(value.encode()).digest()
    encode = bytes.hex if scheme.key == "hex" else lambda data: base64.b64encode(data).decode()
    if scheme.algorithm == "ed25519":
        private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        return encode(seed), encode(private.public_key().public_bytes_raw())
    if scheme.algorithm == "ecdsa":
        key = ec.derive_private_key(int.from_bytes(seed), ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return encode(key.private_bytes(serialization.Encoding.DER, *form)), encode(public)
    return (value, value) if scheme.key in ("text", "standard") else (encode(seed), encode(seed))


def delivery(
    scheme: Scheme,
    body: bytes = b'{"event":{"id":"e-1"},"id":"e-1"}',
    secret: Secret | None = None,
    now: int = NOW,
) -> WebhookRequest:
    """A request of this scheme, signed at NOW."""
    headers = {"content-type": "application/json", "x-noise": "1"}
    if scheme.published:
        return published_delivery(scheme, URL, body, now, headers)
    return deliver(scheme, secret or signer_of(scheme), URL, body, now, headers=headers, delivery_id="d-1")


def changed(request: WebhookRequest, **fields: Any) -> WebhookRequest:
    """The same request with some parts replaced; `headers` is a list of pairs."""
    merged = {"method": request.method, "url": request.url, "headers": pairs(request), "body": request.body, **fields}
    return WebhookRequest.build(merged["method"], merged["url"], merged["headers"], merged["body"])


def pairs(request: WebhookRequest) -> list[tuple[str, str]]:
    return [(name, value) for name in request.headers for value in request.headers.all(name)]


def with_header(request: WebhookRequest, name: str, value: str) -> WebhookRequest:
    kept = [(key, old) for key, old in pairs(request) if key != name.lower()]
    return changed(request, headers=[*kept, (name, value)])


def refusal(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Iterable[Secret] | None = None,
    now: int = NOW,
    keys: PublishedKeys | None = None,
) -> RefusalReason | None:
    """Why a request is refused; None where it is accepted."""
    try:
        verify(scheme, request, list(secrets or [secret_of(scheme)]), now, keys or keys_of(Makers(), now))
    except SignatureInvalid as invalid:
        return invalid.reason
    return None


def texts(count: int, seed: int) -> list[str]:
    """Bodies as text: JSON, markup, unicode of every plane, line ends, NUL, and none at all."""
    rng = random.Random(seed)
    alphabet = 'abcXYZ019 {}[]":,.=&%+\r\n\t\x00<>äßñ\u00a0\u2028漢字🙂𝄞'
    made = ["", "{}", " ", "\n", "null", '{"a": "ü🙂"}', "t=1,v1=00", "\ufeff{}", "a=b&c=d%20e"]
    while len(made) < count:
        made.append("".join(rng.choices(alphabet, k=int(2 ** rng.uniform(0, 12)))))
    return made


def binaries(count: int, seed: int) -> list[bytes]:
    """Bodies that are not text, 1 byte to 64 KB, and two large ones."""
    rng = random.Random(seed)
    made = [rng.randbytes(int(2 ** rng.uniform(0, 16))) for _ in range(count)]
    return [b"\x00", b"\xff\xfe", *made, rng.randbytes(1_000_003), rng.randbytes(5 * 1024 * 1024)]


OLD, NEW = Secret("old", OTHER, None, NOW + 10), Secret("new", SHARED, NOW - 10, None)


every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())
