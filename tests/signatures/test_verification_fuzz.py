"""Whatever arrives, verification gives proof or refuses; it never falls over."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.signatures import (
    PRESETS,
    ConfigurationMissing,
    Headers,
    Scheme,
    SignatureInvalid,
    WebhookRequest,
    challenge,
    handshake,
    idempotency_key,
    retained_headers,
    verify,
)
from millrace.signatures.signing import sign
from tests.signatures.cases import NOW, SCHEMES, SHAPES, URL, delivery, secret_of, signer_of

TYPES = ["application/json", "application/x-www-form-urlencoded", "text/plain", ""]
HEADER_NAMES = sorted(
    {
        name
        for scheme in SCHEMES.values()
        for names in scheme.names
        for name in (names.signature, names.timestamp, names.id)
    }
    | {name for scheme in SCHEMES.values() for name in scheme.id_headers}
    | {"content-type"} - {""}
)
NUMBERS = st.one_of(st.integers(), st.just(NOW // 1000), st.just(NOW)).map(str)
PIECES = st.sampled_from(
    [
        "v1=",
        "v0=",
        "v1,",
        "v1a,",
        "t=",
        "sha256=",
        ",",
        " ",
        "=",
        "\x00",
        "\ud800",
        "00",
        "AAAA",
        "2026-03-02T09:14:07Z",
    ]
)
VALUES = st.one_of(
    st.lists(st.one_of(PIECES, NUMBERS, st.text(max_size=8)), max_size=8).map("".join), st.text(max_size=60)
)
HEADERS = st.lists(st.tuples(st.one_of(st.sampled_from(HEADER_NAMES), st.text(max_size=12)), VALUES), max_size=10)
JSON_BODIES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "event", "type", "challenge", "payload", "plainToken", "webhookTimestamp", "event_id"]
            ),
            inner | st.sampled_from(["url_verification", "endpoint.url_validation"]),
            max_size=4,
        )
    ),
    max_leaves=6,
)
BODIES = st.one_of(
    st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
URLS = st.one_of(st.just(URL), st.text(max_size=40), st.text(max_size=20).map(lambda text: f"https://h/x?{text}"))

fuzz = settings(
    derandomize=True, max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@fuzz
@given(st.sampled_from(list(SCHEMES.values())), st.sampled_from(["GET", "POST"]), URLS, HEADERS, BODIES)
def test_arbitrary_request_is_refused_and_nothing_else(
    scheme: Scheme, method: str, url: str, headers: list[tuple[str, str]], body: bytes
) -> None:
    request = WebhookRequest.build(method, url, headers, body)
    with pytest.raises(SignatureInvalid):
        verify(scheme, request, [secret_of(scheme)], NOW)
    with contextlib.suppress(SignatureInvalid):
        handshake(scheme, request, [secret_of(scheme)], NOW, [secret_of(scheme)])
    retained_headers(scheme, request.headers)


@fuzz
@given(st.sampled_from(list(SCHEMES.values())), st.data())
def test_right_request_with_arbitrary_headers_added_or_replaced(scheme: Scheme, data: st.DataObject) -> None:
    request = delivery(scheme)
    names = st.sampled_from(list(request.headers))
    extra = data.draw(st.lists(st.tuples(st.one_of(names, st.sampled_from(HEADER_NAMES)), VALUES), max_size=3))
    dropped = set(data.draw(st.lists(names, max_size=2)))
    kept = [(name, request.headers.one(name)) for name in request.headers if name not in dropped]
    odd = WebhookRequest.build("POST", request.url, [*extra, *kept], request.body)
    with contextlib.suppress(SignatureInvalid):
        verify(scheme, odd, [secret_of(scheme)], NOW)


@fuzz
@given(st.sampled_from(list(PRESETS.values())), JSON_BODIES)
def test_signed_body_of_any_shape_is_taken_or_refused(scheme: Scheme, document: object) -> None:
    import json

    body = json.dumps(document).encode()
    headers = {"content-type": "application/json", **sign_or_skip(scheme, body)}
    request = WebhookRequest.build("POST", URL, headers, body)
    try:
        verified = verify(scheme, request, [secret_of(scheme)], NOW)
        assert len(idempotency_key(scheme, request, verified)) < 700
        answer = challenge(scheme, request, verified)
    except SignatureInvalid:
        return
    assert answer is None or len(answer.body) < 700


def sign_or_skip(scheme: Scheme, body: bytes) -> dict[str, str]:
    try:
        return sign(scheme, signer_of(scheme), body, NOW, url=URL, delivery_id="d-1")
    except (SignatureInvalid, ConfigurationMissing):  # Twilio's JSON without a hash; signatures in a query or body
        return {}


@pytest.mark.parametrize("scheme", SHAPES.values(), ids=SHAPES.keys())
def test_hostile_sizes_take_bounded_time(scheme: Scheme) -> None:
    huge = "v1=" + ",v1=" * 300_000
    headers = Headers([(name, value) for name in HEADER_NAMES for value in (huge, huge[:4000])])
    started = time.process_time()
    for body in (b"a=1&" * 1_000_000, b"[" * 4_000_000, b"%" * 4_000_000):
        request = WebhookRequest("POST", URL, "/hook", huge, headers, body)
        with pytest.raises(SignatureInvalid):
            verify(scheme, request, [secret_of(scheme)], NOW)
        assert request.parameter("hub.mode") is None
    assert time.process_time() - started < 10
