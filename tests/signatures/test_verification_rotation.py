"""Two secrets at once: each inside its window, each tried."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from unittest import mock

import pytest

from millrace.signatures import (
    ConfigurationMissing,
    RefusalReason,
    Scheme,
    Secret,
    SignatureInvalid,
    preset,
    tokens,
    verification,
    verify,
)
from millrace.signatures.signing import deliver
from tests.signatures.cases import (
    NEW,
    NOW,
    OLD,
    OTHER,
    SCHEMES,
    SHARED,
    URL,
    delivery,
    refusal,
    secret_of,
    signer_of,
    with_header,
)


def rotation(scheme: Scheme) -> tuple[Secret, Secret]:
    old, new = secret_of(scheme, OTHER, "old"), secret_of(scheme, SHARED, "new")
    return replace(old, not_after_ms=NOW + 10), replace(new, not_before_ms=NOW - 10)


every_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES.keys())


@every_scheme
def test_both_secrets_of_a_rotation_are_accepted_and_named(scheme: Scheme) -> None:
    old, new = rotation(scheme)
    for name, value in (("old", OTHER), ("new", SHARED)):
        request = delivery(scheme, secret=signer_of(scheme, value))
        for order in ([old, new], [new, old]):
            assert verify(scheme, request, order, NOW).secret_name == name


def test_persona_signs_with_both_secrets_in_pairs_of_their_own() -> None:
    persona = preset("persona")
    request = delivery(persona)
    pair = request.headers.one("persona-signature")
    stamp, _, _ = pair.partition(",")
    other = f"{stamp},v1={'0' * 64}"
    for header in (f"{pair} {other}", f"{other} {pair}", f"{other} {pair} {other}"):
        assert verify(persona, with_header(request, "persona-signature", header), [secret_of(persona)], NOW)
    older = f"t={int(stamp[2:]) - 1},v1={'0' * 64}"
    for header in (f"{pair} {older}", other, f"{other} {other}"):
        with pytest.raises(SignatureInvalid):
            verify(persona, with_header(request, "persona-signature", header), [secret_of(persona)], NOW)


@every_scheme
def test_secret_counts_only_inside_its_window(scheme: Scheme) -> None:
    always = secret_of(scheme, "whsec_" + b64encode(b"another key that is always live").decode())
    windowed = replace(secret_of(scheme), not_before_ms=NOW - 5, not_after_ms=NOW + 5)
    request = delivery(scheme)
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
    request = delivery(scheme)
    old, new = rotation(scheme)
    counts = []
    for secrets in ([new, old], [old, new]):
        compare = tokens._signed if scheme.jwt else verification._made
        with mock.patch(f"{compare.__module__}.{compare.__name__}", side_effect=compare) as compared:
            verify(scheme, request, secrets, NOW)
        counts.append(compared.call_count)
    assert counts[0] == counts[1] >= 2


@pytest.mark.parametrize("name", [name for name, row in SCHEMES.items() if not row.asymmetric and not row.jwt])
def test_a_shared_secret_is_compared_in_constant_time_and_in_no_other_way(name: str) -> None:
    """What `compare_digest` denies, nothing else believes."""
    request = delivery(SCHEMES[name])
    with mock.patch("hmac.compare_digest", return_value=False) as compared:
        assert refusal(SCHEMES[name], request, [secret_of(SCHEMES[name])]) is not None
    assert compared.called


def test_docusign_sends_a_header_for_each_of_its_keys() -> None:
    """Whichever of them is ours: the others are of keys that somebody else holds."""
    scheme = preset("docusign")
    keys = [Secret(name, name) for name in ("first", "second", "third")]
    request = deliver(scheme, keys, URL, b"{}", NOW)
    assert sorted(name for name in request.headers if name.startswith("x-docusign")) == [
        f"x-docusign-signature-{number}" for number in (1, 2, 3)
    ]
    for key in keys:
        assert refusal(scheme, request, [key]) is None
    assert refusal(scheme, request, [Secret("fourth", "fourth")]) is RefusalReason.MISMATCH
    gone = with_header(request, "x-docusign-signature-1", "")
    assert refusal(scheme, gone, keys) is RefusalReason.MISSING_HEADER, "an empty one is no signature"
