"""Presets, definitions, idempotency keys, retained headers, and the price of an import."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millrace.signatures import (
    PRESETS,
    ConfigurationMissing,
    Headers,
    generic,
    idempotency_key,
    preset,
    retained_headers,
    scheme_from,
    verify,
)
from millrace.signatures.request import WebhookRequest
from tests.signatures.cases import NOW, SCHEMES, changed, delivery, secret_of, with_header


def key_of(name: str, request: WebhookRequest) -> str:
    scheme = SCHEMES[name]
    return idempotency_key(scheme, request, verify(scheme, request, [secret_of(scheme)], NOW))


def test_definition_names_a_provider_a_header_or_a_formula() -> None:
    assert scheme_from({"provider": "github"}) is not None
    assert scheme_from({"provider": "github"}) == preset("github")
    assert scheme_from({"header": "X-PagerDuty-Signature"}) == preset("pagerduty")
    assert scheme_from({"header": "X-Hub-Signature-256", "prefix": None}) == preset("github")
    assert scheme_from({"header": "X-Mine"}) == generic("x-mine")
    assert scheme_from({"header": "X-PagerDuty-Signature", "prefix": "v1="}).name == "generic"
    assert scheme_from({"provider": "stripe", "tolerance_seconds": 60}).tolerance_seconds == 60


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"provider": "gitbub"},
        {"provider": "github", "tolerance_seconds": 60},
        {"provider": "github", "prefix": "x"},
        {"provider": "stripe", "tolerance_seconds": 0},
        {"provider": "stripe", "tolerance_seconds": -1},
        {"header": ""},
        {"header": "X-Mine", "algorithm": "md5"},
        {"header": "X-Mine", "encoding": "base32"},
        {"header": "X-Mine", "separator": ";"},
        {"header": "X-Mine", "tolerance_seconds": 60},
        {"header": "X-Mine", "timestamp_header": "X-Time", "tolerance_seconds": 0},
        {"header": "X-Mine", "timestamp_header": "X-Time", "template": "{body}"},
        {"header": "X-Mine", "timestamp_header": "X-Time", "timestamp_unit": "days"},
        {"header": "X-Mine", "template": "{timestamp}.{body}"},
        {"header": "X-Mine", "template": "{id}.{body}"},
        {"header": "X-Mine", "template": "{timestamp}"},
        {"header": "X-Mine", "template": "constant"},
        {"header": "X-Mine", "template": "{body"},
        {"header": "X-Mine", "template": "{body!r}"},
        {"header": "X-Mine", "template": "{body.__class__}"},
        {"header": "X-Mine", "template": "{secret}{body}"},
        {"header": "X-Mine", "tolerence": 1},
    ],
)
def test_definition_that_could_not_protect_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationMissing):
        scheme_from(settings)


def test_presets_say_how_each_provider_takes_an_answer() -> None:
    facts = {name: scheme.facts for name, scheme in PRESETS.items()}
    assert facts["zoom"].success_status == 200
    assert (facts["zoom"].answer_within_seconds, facts["shopify"].answer_within_seconds) == (3, 5)
    assert (facts["pagerduty"].overload_status, facts["pagerduty"].answer_within_seconds) == (429, 5)
    assert facts["github"].redelivers is False
    assert {fact.success_status for fact in facts.values()} <= {200, 202, 204}
    assert {name for name, fact in facts.items() if fact.overload_status != 503} == {"pagerduty"}


def test_signed_delivery_id_is_the_key_whatever_the_body() -> None:
    assert key_of("standard_webhooks", delivery(SCHEMES["standard_webhooks"])) == "standard_webhooks:id:d-1"
    first, retried = (delivery(SCHEMES["stripe"], b'{"id":"evt_1","pending_webhooks":%d}' % n) for n in (2, 1))
    assert key_of("stripe", first) == key_of("stripe", retried) == "stripe:id:evt_1"
    assert key_of("pagerduty", delivery(SCHEMES["pagerduty"])) == "pagerduty:id:e-1"


def test_unsigned_delivery_id_counts_only_with_its_body() -> None:
    """Else a captured body under the id of the next delivery would make that one a repeat, and lose it."""
    one, two = (with_header(delivery(SCHEMES["github"], body), "x-github-delivery", "g-1") for body in (b"{}", b"[]"))
    assert key_of("github", one) == f"github:id:g-1:sha256:{hashlib.sha256(b'{}').hexdigest()}"
    assert key_of("github", one) != key_of("github", two)
    renamed = with_header(one, "x-github-delivery", "g-2")
    assert key_of("github", renamed) != key_of("github", one)


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
    for body in (b'{"id":7}', b'{"id":"a b"}', b"[]", b"not json", b'{"id":NaN}'):
        assert key_of("stripe", delivery(SCHEMES["stripe"], body)).startswith("stripe:sha256:")


def test_two_topics_of_one_shopify_event_are_two_deliveries() -> None:
    base = with_header(delivery(SCHEMES["shopify"], b"{}"), "x-shopify-event-id", "e")
    keys = {
        key_of("shopify", with_header(base, "x-shopify-topic", topic)) for topic in ("orders/create", "orders/paid")
    }
    assert len(keys) == 2


SENSITIVE = {
    "Authorization": "Bearer x",
    "Proxy-Authorization": "Basic x",
    "Cookie": "a=b",
    "Set-Cookie": "a=b",
    "X-Api-Key": "k",
    "X-Amz-Security-Token": "t",
    "X-Hub-Signature": "sha1=0",
    "X-Session-Id": "s",
    "X-Some-Password": "p",
}


def test_credentials_and_signatures_are_never_retained_even_when_asked_for() -> None:
    sent = {name: "v" for scheme in SCHEMES.values() for names in scheme.names for name in [names.signature]}
    for scheme in SCHEMES.values():
        own = {names.signature for names in scheme.names}
        headers = Headers({**SENSITIVE, **sent, "Content-Type": "application/json"})
        asked = [*SENSITIVE, *sent, *own, *(name.upper() for name in own)]
        assert retained_headers(scheme, headers, also=asked) == {"content-type": "application/json"}


def test_signature_under_an_innocent_name_is_not_retained() -> None:
    scheme = generic("X-Gate-Digest")
    assert retained_headers(scheme, Headers({"X-Gate-Digest": "00"}), also=["X-Gate-Digest"]) == {}


def test_without_a_scheme_no_providers_header_and_no_proof_is_retained() -> None:
    sent = {"X-GitHub-Event": "push", "X-Hub-Signature-256": "x", "Content-Type": "text/plain", "X-Team": "a"}
    kept = retained_headers(None, Headers(sent), also=["X-Hub-Signature-256", "X-Team"])
    assert kept == {"content-type": "text/plain", "x-team": "a"}


def test_retained_headers_are_an_allow_list() -> None:
    headers = Headers(
        [("X-GitHub-Event", "push"), ("X-Unknown", "1"), ("X-Team", "a"), ("X-Team", "b"), ("User-Agent", "u" * 1025)]
    )
    kept = retained_headers(preset("github"), headers, also=["X-Team"])
    assert kept == {"x-github-event": "push", "x-team": "a, b"}


def test_import_costs_the_standard_library_only() -> None:
    code = (
        "import sys, millrace.signatures, millrace.signatures.signing\n"
        "heavy = {'boto3', 'botocore', 'aws_lambda_powertools', 'cryptography', 'pydantic', 'urllib3', 'requests'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    shared = Path(__file__).parents[2] / "shared"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=shared, check=True)
    assert done.stdout.strip() == "[]"
