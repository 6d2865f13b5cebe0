"""Two secrets at once: each inside its window, each tried."""

from __future__ import annotations

import hmac
from base64 import b64encode
from unittest import mock

import pytest

from millrace.signatures import ConfigurationMissing, RefusalReason, Scheme, Secret, preset, verify
from millrace.signatures.signing import deliver
from tests.signatures.cases import NEW, NOW, OLD, OTHER, SCHEMES, SHARED, URL, delivery, refusal

every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())


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
