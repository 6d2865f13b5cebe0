"""What the tests of signatures share: a fixed moment, a secret for each scheme, bodies of every kind."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from millrace.signatures import (
    PRESETS,
    RefusalReason,
    Scheme,
    Secret,
    SignatureInvalid,
    WebhookRequest,
    generic,
    verify,
)
from millrace.signatures.signing import deliver

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

SCHEMES = {**PRESETS, **GENERIC}


def secret_of(scheme: Scheme, value: str = SHARED, name: str = "current") -> Secret:
    return Secret(name, value)


def delivery(
    scheme: Scheme,
    body: bytes = b'{"event":{"id":"e-1"},"id":"e-1"}',
    secret: Secret | None = None,
    now: int = NOW,
) -> WebhookRequest:
    """A request of this scheme, signed at NOW."""
    headers = {"content-type": "application/json", "x-noise": "1"}
    return deliver(scheme, secret or secret_of(scheme), URL, body, now, headers=headers, delivery_id="d-1")


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
    scheme: Scheme, request: WebhookRequest, secrets: Iterable[Secret] | None = None, now: int = NOW
) -> RefusalReason | None:
    """Why a request is refused; None where it is accepted."""
    try:
        verify(scheme, request, list(secrets or [secret_of(scheme)]), now)
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
