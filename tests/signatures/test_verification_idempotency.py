"""The idempotency key of a delivery: its signed id, or its body."""

from __future__ import annotations

import hashlib

from millrace.signatures import Scheme, idempotency_key, verify
from millrace.signatures.request import WebhookRequest
from millrace.signatures.signing import deliver
from tests.signatures.cases import NOW, SCHEMES, changed, delivery, every_scheme, secret_of, with_header


def key_of(name: str, request: WebhookRequest) -> str:
    scheme = SCHEMES[name]
    return idempotency_key(scheme, request, verify(scheme, request, [secret_of(scheme)], NOW))


def test_signed_delivery_id_is_the_key_whatever_the_body() -> None:
    assert key_of("standard_webhooks", delivery(SCHEMES["standard_webhooks"])) == "standard_webhooks:id:d-1"
    first, retried = (delivery(SCHEMES["stripe"], b'{"id":"evt_1","pending_webhooks":%d}' % n) for n in (2, 1))
    assert key_of("stripe", first) == key_of("stripe", retried) == "stripe:id:evt_1"
    assert key_of("pagerduty", delivery(SCHEMES["pagerduty"])) == "pagerduty:id:e-1"


def test_two_bodies_under_one_unsigned_id_are_two_deliveries() -> None:
    """Else a captured body under the id of the next delivery would make that one a repeat, and lose it."""
    one, two = (with_header(delivery(SCHEMES["github"], body), "x-github-delivery", "g-1") for body in (b"{}", b"[]"))
    assert key_of("github", one) == f"github:sha256:{hashlib.sha256(b'{}').hexdigest()}"
    assert key_of("github", one) != key_of("github", two)


@every_scheme
def test_a_captured_delivery_under_other_unsigned_headers_is_the_same(scheme: Scheme) -> None:
    """A replay with every header changed that the signature does not cover."""
    first = delivery(scheme)
    proofs = {names.signature for names in scheme.names}
    kept = proofs | set(scheme.signed_headers) | {"content-type"}
    unsigned = {*scheme.id_headers, *scheme.facts.event_headers, *scheme.kind_headers, "x-noise"} - kept
    replayed = first
    for name in unsigned:
        replayed = with_header(replayed, name, "made-up")
    verified, again = (verify(scheme, request, [secret_of(scheme)], NOW) for request in (first, replayed))
    assert idempotency_key(scheme, replayed, again) == idempotency_key(scheme, first, verified)


def test_a_twilio_form_in_another_order_or_with_its_port_is_the_same() -> None:
    """Twilio signs the sorted fields, so the bytes of a body can differ where the signed ones do not."""
    scheme, form = SCHEMES["twilio"], {"content-type": "application/x-www-form-urlencoded"}
    first = deliver(scheme, secret_of(scheme), "https://h.example/x", b"a=1&b=2", NOW, headers=form)
    shuffled = changed(first, body=b"b=2&a=1")
    doubled = changed(first, body=b"a=1&b=2&b=2", url="https://h.example:443/x")
    assert len({key_of("twilio", request) for request in (first, shuffled, doubled)}) == 1


def test_body_is_the_key_where_no_usable_id_is_sent() -> None:
    expected = f"github:sha256:{hashlib.sha256(b'{}').hexdigest()}"
    request = delivery(SCHEMES["github"], b"{}")
    assert key_of("github", request) == expected
    for odd in ("", "a b", "x" * 257, "ü", "a\x00"):
        assert key_of("github", with_header(request, "x-github-delivery", odd)) == expected
    twice = [("x-github-delivery", "a"), ("x-github-delivery", "b")]
    signature = request.headers.one("x-hub-signature-256")
    doubled = changed(request, headers=[*twice, ("x-hub-signature-256", signature)])
    assert key_of("github", doubled) == expected
    for body in (b'{"id":7.5}', b'{"id":true}', b'{"id":"a b"}', b"[]", b"not json", b'{"id":NaN}'):
        assert key_of("stripe", delivery(SCHEMES["stripe"], body)).startswith("stripe:sha256:")


def test_two_topics_of_one_shopify_event_are_two_deliveries() -> None:
    base = with_header(delivery(SCHEMES["shopify"], b"{}"), "x-shopify-event-id", "e")
    keys = {
        key_of("shopify", with_header(base, "x-shopify-topic", topic)) for topic in ("orders/create", "orders/paid")
    }
    assert len(keys) == 2
    made_up = {key_of("shopify", with_header(base, "x-shopify-topic", topic)) for topic in ("a/b", "orders/x", "")}
    assert made_up == {key_of("shopify", base)}
