"""Every change of a signed request is refused, in every scheme."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.signatures import RefusalReason, Scheme, WebhookRequest, preset, verify
from millrace.signatures.scheme import Layout, TimestampFormat
from tests.signatures.cases import (
    NOW,
    OTHER,
    SCHEMES,
    URL,
    changed,
    delivery,
    every_scheme,
    pairs,
    refusal,
    secret_of,
    signer_of,
    with_header,
)


def signature_of(scheme: Scheme, request: WebhookRequest) -> str:
    return request.headers.one(scheme.names[0].signature)


def stamp_of(scheme: Scheme, moment: int) -> str:
    seconds = scheme.clock is TimestampFormat.SECONDS
    return f"{scheme.stamp_prefix}{moment // 1000 if seconds else moment}"


timed = [scheme for scheme in SCHEMES.values() if scheme.timed]
#: Those whose time is no claim of a token.
stamped = [scheme for scheme in timed if scheme.jwt is None]


ODD_TIMES = [
    "",
    "-1",
    "1e9",
    "1772442847.0",
    " 1",
    "0x10",
    "١٧٧٢٤٤٢٨٤٧",
    "9" * 400,
    "nan",
    "1_000",
    "²",
    "1772442847\n",
]


ODD_DATES = [
    "2026-03-02",
    "2026-03-02T09:14:07",
    "2026-13-02T09:14:07Z",
    "2026-03-02T09:14:07.Z",
    "2026-03-02T09:14:07+00:00",
]


@every_scheme
def test_untouched_request_is_accepted(scheme: Scheme) -> None:
    assert refusal(scheme, delivery(scheme)) is None


@every_scheme
def test_any_change_of_the_body_is_refused(scheme: Scheme) -> None:
    request = delivery(scheme)
    body = request.body
    for other in (body + b" ", b" " + body, body[:-1], body.replace(b"e-1", b"e-2"), b"", body + b"\r\n", body * 2):
        assert refusal(scheme, changed(request, body=other)) is not None


@every_scheme
def test_every_single_character_of_the_signature_counts(scheme: Scheme) -> None:
    request = delivery(scheme)
    value = signature_of(scheme, request)
    for place, old in enumerate(value):
        new = "A" if old != "A" else "B"
        if value[place:].rstrip("=") and old != "=":
            odd = value[:place] + new + value[place + 1 :]
            assert refusal(scheme, with_header(request, scheme.names[0].signature, odd)) is not None, (place, odd)


@every_scheme
@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value[:-1],
        lambda value: value[: len(value) // 2],
        lambda value: value + "0",
        lambda value: value[:8] + " " + value[8:],
        lambda value: value.replace("=", " = ", 1) if "=" in value else value[:4] + "\t" + value[4:],
        lambda value: value.swapcase(),
        lambda value: "md5=" + value,
        lambda value: value[:1],
        lambda value: value + "ü",
        lambda value: "\ud800" + value,
        lambda value: value * 200,
    ],
)
def test_damaged_signature_is_refused(scheme: Scheme, damage: Callable[[str], str]) -> None:
    request = delivery(scheme)
    odd = damage(signature_of(scheme, request))
    assert refusal(scheme, with_header(request, scheme.names[0].signature, odd)) is not None


@every_scheme
def test_missing_or_empty_header_is_named_as_such(scheme: Scheme) -> None:
    request = delivery(scheme)
    names = [scheme.names[0].signature, scheme.names[0].timestamp, scheme.names[0].id if scheme.signs_id else ""]
    for name in filter(None, names):
        without = changed(request, headers=[pair for pair in pairs(request) if pair[0] != name])
        assert refusal(scheme, without) is RefusalReason.MISSING_HEADER
        assert refusal(scheme, with_header(request, name, " ")) is RefusalReason.MISSING_HEADER


@every_scheme
def test_repeated_header_is_refused_unless_its_format_is_a_list(scheme: Scheme) -> None:
    request = delivery(scheme)
    names = scheme.names[0]
    for name in filter(None, (names.signature, names.timestamp, names.id if scheme.signs_id else "")):
        value = request.headers.one(name)
        for order in ([(name, value), (name, value)], [(name, "x"), (name, value)], [(name, value), (name, "x")]):
            kept = [pair for pair in pairs(request) if pair[0] != name]
            found = refusal(scheme, changed(request, headers=[*kept, *order]))
            lists = scheme.layout is Layout.COMMAS and name == names.signature
            assert found is (None if lists else RefusalReason.AMBIGUOUS_HEADER)


@every_scheme
def test_repeats_that_a_gateway_joined_with_commas_are_refused_too(scheme: Scheme) -> None:
    request = delivery(scheme)
    names = scheme.names[0]
    for name in filter(None, (names.signature, names.timestamp, names.id if scheme.signs_id else "")):
        value = request.headers.one(name)
        found = refusal(scheme, with_header(request, name, f"{value},{value}"))
        lists = scheme.layout is Layout.COMMAS and name == names.signature
        assert (found is None) == lists


@every_scheme
def test_signature_of_another_secret_is_a_mismatch(scheme: Scheme) -> None:
    request = delivery(scheme, secret=signer_of(scheme, OTHER))
    assert refusal(scheme, request) is RefusalReason.MISMATCH


@pytest.mark.parametrize("scheme", timed, ids=[scheme.name for scheme in timed])
def test_time_is_refused_on_both_sides_of_the_tolerance(scheme: Scheme) -> None:
    unit = 1 if scheme.clock is TimestampFormat.MILLISECONDS or scheme.clock is TimestampFormat.RFC3339 else 1000
    signed_at = NOW // unit * unit
    assert scheme.tolerance_seconds is not None
    reach = scheme.tolerance_seconds * 1000
    ahead = min(reach, 300_000)
    request = delivery(scheme, now=signed_at)
    for now in (signed_at - ahead, signed_at, signed_at + reach):
        assert verify(scheme, request, [secret_of(scheme)], now).signed_at_ms == signed_at
    for now in (signed_at - ahead - 1, signed_at + reach + 1, 0, signed_at * 1000):
        assert refusal(scheme, request, now=now) is RefusalReason.TIMESTAMP_OUTSIDE_TOLERANCE


@pytest.mark.parametrize("scheme", stamped, ids=[scheme.name for scheme in stamped])
def test_fresher_time_than_the_signed_one_is_refused(scheme: Scheme) -> None:
    request = delivery(scheme)
    fresh = delivery(scheme, now=NOW + 2000)
    name = scheme.names[0].timestamp
    if name:
        assert refusal(scheme, with_header(request, name, fresh.headers.one(name))) is RefusalReason.MISMATCH
    elif scheme.layout in (Layout.STAMPED, Layout.PAIRS):
        odd = signature_of(scheme, request).replace(stamp_of(scheme, NOW), stamp_of(scheme, NOW + 2000))
        assert refusal(scheme, with_header(request, scheme.names[0].signature, odd)) is RefusalReason.MISMATCH
    else:
        assert refusal(scheme, changed(request, body=fresh.body)) is RefusalReason.MISMATCH


@pytest.mark.parametrize("scheme", stamped, ids=[scheme.name for scheme in stamped])
@pytest.mark.parametrize("text", ODD_TIMES + ODD_DATES)
def test_odd_time_is_refused(scheme: Scheme, text: str) -> None:
    request = delivery(scheme)
    if scheme.names[0].timestamp:
        odd = with_header(request, scheme.names[0].timestamp, text)
    elif scheme.layout in (Layout.STAMPED, Layout.PAIRS):
        value = signature_of(scheme, request).replace(stamp_of(scheme, NOW), f"{scheme.stamp_prefix}{text}")
        odd = with_header(request, scheme.names[0].signature, value)
    else:
        odd = changed(request, body=request.body.replace(str(NOW).encode(), b'"' + text.encode() + b'"'))
    assert refusal(scheme, odd) is not None


def test_signed_id_counts() -> None:
    for scheme in (scheme for scheme in SCHEMES.values() if scheme.signs_id):
        request = delivery(scheme)
        name = scheme.names[0].id
        assert refusal(scheme, with_header(request, name, "d-2")) is RefusalReason.MISMATCH
        for odd in ("d 1", "d-1\x00", "d" * 300, "dü"):
            assert refusal(scheme, with_header(request, name, odd)) is RefusalReason.MALFORMED


@pytest.mark.parametrize("name", ["square", "twilio", "generic_id"])
def test_url_counts_where_it_is_signed(name: str) -> None:
    scheme = SCHEMES[name]
    request = delivery(scheme)
    for url in (request.url + "&x=1", request.url.replace("https", "http"), request.url.replace("inbox", "inbax")):
        assert refusal(scheme, changed(request, url=url)) is not None


@pytest.mark.parametrize("name", ["square", "twilio", "generic_id"])
def test_url_that_no_provider_can_have_signed_is_malformed(name: str) -> None:
    odd = changed(delivery(SCHEMES[name]), url="https://h.example/\ud800", body=b"")
    assert refusal(SCHEMES[name], odd) is RefusalReason.MALFORMED


def test_one_providers_request_does_not_pass_as_anothers() -> None:
    for name, scheme in SCHEMES.items():
        request = delivery(scheme)
        twins = {other for other, reader in SCHEMES.items() if proof(reader) == proof(scheme)}
        twins |= {"svix"} if scheme.names[0].signature == "webhook-signature" and scheme.key == "standard" else set()
        for other, reader in SCHEMES.items():
            assert (refusal(reader, request) is None) == (other in twins), (name, other)


def proof(scheme: Scheme) -> tuple[object, ...]:
    """What is sent; two providers with the same cannot be told apart, and need not be: their secrets differ."""
    written = (scheme.layout, scheme.prefix, scheme.algorithm, scheme.encoding, scheme.template, scheme.key)
    return (scheme.names[0], *written, scheme.stamp_prefix, scheme.separator, scheme.clock)


def test_svix_prefers_its_own_names_and_never_mixes_families() -> None:
    scheme = preset("svix")
    svix = delivery(scheme)
    standard = delivery(preset("standard_webhooks"))
    assert refusal(scheme, standard) is None
    both = changed(svix, headers=[*pairs(svix), ("webhook-id", "z"), ("webhook-timestamp", "0")])
    assert refusal(scheme, both) is None
    mixed = [pair for pair in pairs(svix) if pair[0] != "svix-id"]
    mixed.append(("webhook-id", "d-1"))
    assert refusal(scheme, changed(svix, headers=mixed)) is RefusalReason.MISSING_HEADER


def test_stray_header_of_the_svix_family_does_not_fall_back_to_the_other() -> None:
    standard = delivery(preset("standard_webhooks"))
    stray = with_header(standard, "svix-id", "d-1")
    assert refusal(preset("svix"), stray) is RefusalReason.MISSING_HEADER


def test_overlong_header_is_not_even_compared() -> None:
    request = delivery(preset("github"))
    overlong = with_header(request, "x-hub-signature-256", "sha256=" + "0" * 4096)
    assert refusal(preset("github"), overlong) is RefusalReason.MALFORMED


def test_unknown_versions_are_ignored_beside_a_right_one() -> None:
    scheme = preset("standard_webhooks")
    request = delivery(scheme)
    right = request.headers.one("webhook-signature")
    for value in (f"v2,abc {right}", f"{right} v1a,AAAA", f"v1,{'A' * 43}= {right}", f"junk {right}"):
        assert refusal(scheme, with_header(request, "webhook-signature", value)) is None
    only_unknown = right.replace("v1,", "v2,")
    assert refusal(scheme, with_header(request, "webhook-signature", only_unknown)) is RefusalReason.MALFORMED


def test_list_of_signatures_is_bounded() -> None:
    scheme = preset("pagerduty")
    request = delivery(scheme)
    right = request.headers.one("x-pagerduty-signature")
    flood = ",".join(["v1=00"] * 16 + [right])
    assert refusal(scheme, with_header(request, "x-pagerduty-signature", flood)) is RefusalReason.MALFORMED


def test_stripe_header_in_any_order_with_one_time_only() -> None:
    scheme = preset("stripe")
    request = delivery(scheme)
    stamp, signature = request.headers.one("stripe-signature").split(",")
    for value in (f"{signature},{stamp}", f"v0=abc,{signature},{stamp}", f"{stamp},v1=00,{signature}"):
        assert refusal(scheme, with_header(request, "stripe-signature", value)) is None
    for value in (f"{stamp},{stamp},{signature}", f"t=1,{stamp},{signature}", signature, stamp, f"t=,{signature}"):
        assert refusal(scheme, with_header(request, "stripe-signature", value)) is RefusalReason.MALFORMED


@pytest.mark.parametrize("body", [b"[1]", b'"x"', b"{}", b"{", b"\xff", b'{"webhookTimestamp":true}', b"[" * 100_000])
def test_linear_body_without_a_time_is_refused_even_if_signed(body: bytes) -> None:
    from millrace.signatures.signing import sign

    scheme = preset("linear")
    headers = sign(scheme, secret_of(scheme), body, NOW)
    assert refusal(scheme, WebhookRequest.build("POST", URL, headers, body)) is RefusalReason.MALFORMED
