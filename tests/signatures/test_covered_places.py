"""Proofs that are not a header over the body: tokens, basic authentication, signatures in the query and in the body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from millrace.signatures import (
    PRESETS,
    RefusalReason,
    Scheme,
    Secret,
    WebhookRequest,
    generic,
    idempotency_key,
    preset,
    scheme_from,
    verify,
)
from millrace.signatures.covered import at_path
from millrace.signatures.samples import load_sample
from millrace.signatures.scheme import SignaturePlace
from millrace.signatures.signing import deliver
from tests.signatures.cases import NOW, OTHER, URL, changed, pairs, refusal, secret_of, signer_of, with_header

FOLDER = Path(__file__).parents[2] / "events" / "providers"
TOKENS = {name: row for name, row in PRESETS.items() if row.algorithm == "token" and row.place is SignaturePlace.HEADER}
ELSEWHERE = {name: row for name, row in PRESETS.items() if row.place is not SignaturePlace.HEADER and not row.published}


def sent(name: str, value: str | None = None, now: int = NOW) -> WebhookRequest:
    sample = load_sample(FOLDER, name)
    secret = signer_of(sample.scheme) if value is None else signer_of(sample.scheme, value)
    headers = sample.headers
    return deliver(sample.scheme, secret, URL, sample.body, now, headers=headers, delivery_id=sample.delivery_id)


@pytest.mark.parametrize("name", TOKENS)
def test_only_the_whole_token_is_believed(name: str) -> None:
    scheme = PRESETS[name]
    request = sent(name)
    header = scheme.names[0].signature
    value = request.headers.one(header)
    assert refusal(scheme, request) is None
    assert refusal(scheme, sent(name, OTHER)) is RefusalReason.MISMATCH
    for odd in (value[:-1], value + "x", value.swapcase(), f"{value},{value}", f"Bearer {value}", value[:-1] + "?"):
        assert refusal(scheme, with_header(request, header, odd)) is not None
    without = changed(request, headers=[pair for pair in pairs(request) if pair[0] != header])
    assert refusal(scheme, without) is RefusalReason.MISSING_HEADER
    twice = changed(request, headers=[*pairs(request), (header, value)])
    assert refusal(scheme, twice) is RefusalReason.AMBIGUOUS_HEADER


def test_a_token_with_a_question_mark_is_not_matched_by_what_cannot_be_encoded() -> None:
    scheme, secret = generic("X-Token", algorithm="token"), Secret("t", "to?ken")
    for odd in ("to\u00fcken", "to\ud800ken"):
        assert refusal(scheme, WebhookRequest.build("POST", URL, {"X-Token": odd}), [secret]) is RefusalReason.MISMATCH
    assert refusal(scheme, WebhookRequest.build("POST", URL, {"X-Token": "to?ken"}), [secret]) is None


def test_basic_authentication_is_a_token_in_base64() -> None:
    scheme = preset("postmark")
    header = "Basic " + base64.b64encode(b"mill:race").decode()
    request = WebhookRequest.build("POST", URL, {"Authorization": header}, b"{}")
    assert refusal(scheme, request, [Secret("basic", "mill:race")]) is None
    assert refusal(scheme, request, [Secret("basic", "mill:rice")]) is RefusalReason.MISMATCH


def test_a_token_may_be_a_parameter_of_the_query() -> None:
    scheme = generic("token", algorithm="token", place="query")
    secret = Secret("t", "s3cr3t")
    for query, found in (
        ("token=s3cr3t", None),
        ("token=s3cr3T", RefusalReason.MISMATCH),
        ("", RefusalReason.MISSING_HEADER),
        ("token=s3cr3t&token=s3cr3t", RefusalReason.MISSING_HEADER),
    ):
        assert refusal(scheme, WebhookRequest.build("POST", f"https://h/x?{query}"), [secret]) is found


def test_pandadoc_signs_the_body_in_its_query() -> None:
    body = b'[{"event":"document_state_changed"}]'
    proof = hmac.new(b"key", body, hashlib.sha256).hexdigest()
    request = WebhookRequest.build("POST", f"https://h/x?signature={proof}", {}, body)
    assert refusal(preset("pandadoc"), request, [Secret("p", "key")]) is None
    assert refusal(preset("pandadoc"), changed(request, body=body + b" "), [Secret("p", "key")]) is not None


def mailgun(body: dict[str, Any], token: str = "a" * 50, moment: int = NOW // 1000) -> WebhookRequest:
    proof = hmac.new(b"key", f"{moment}{token}".encode(), hashlib.sha256).hexdigest()
    signed = {"signature": {"timestamp": str(moment), "token": token, "signature": proof}, **body}
    return WebhookRequest.build("POST", URL, {"content-type": "application/json"}, json.dumps(signed).encode())


def test_mailgun_signs_a_token_so_a_delivery_counts_once_whatever_its_body() -> None:
    scheme, secret = preset("mailgun"), Secret("m", "key")
    first, forged = mailgun({"event-data": {"event": "delivered"}}), mailgun({"event-data": {"event": "failed"}})
    keys = {idempotency_key(scheme, request, verify(scheme, request, [secret], NOW)) for request in (first, forged)}
    assert keys == {f"mailgun:id:{'a' * 50}"}
    broken = changed(first, body=first.body.replace(b'"a', b'"b'))
    assert refusal(scheme, broken, [secret]) is RefusalReason.MISMATCH
    late = mailgun({}, moment=NOW // 1000 - 36_001)
    assert refusal(scheme, late, [secret]) is RefusalReason.TIMESTAMP_OUTSIDE_TOLERANCE
    for odd in (b"{}", b"[]", b"{", b'{"signature":7}', b'{"signature":{"token":[],"timestamp":1,"signature":"x"}}'):
        assert refusal(scheme, changed(first, body=odd), [secret]) is not None


def test_adyen_signs_eight_fields_of_one_notification() -> None:
    scheme = preset("adyen")
    request = sent("adyen")
    assert refusal(scheme, request) is None
    for old, new in ((b"1130", b"1131"), (b'"true"', b'"false"'), (b"order-7", b"order-8"), (b"EUR", b"USD")):
        assert refusal(scheme, changed(request, body=request.body.replace(old, new))) is RefusalReason.MISMATCH
    document = json.loads(request.body)
    document["notificationItems"] *= 2
    assert refusal(scheme, changed(request, body=json.dumps(document).encode())) is RefusalReason.MALFORMED
    again = verify(scheme, request, [secret_of(scheme)], NOW)
    assert idempotency_key(scheme, request, again).startswith("adyen:sha256:")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_proof_elsewhere_is_refused_under_another_secret(name: str) -> None:
    assert refusal(PRESETS[name], sent(name)) is None
    assert refusal(PRESETS[name], sent(name, OTHER)) is RefusalReason.MISMATCH


def test_paths_of_a_body_end_where_there_is_nothing() -> None:
    document = {"a": [{"b": 1}]}
    assert at_path(document, "a.0.b") == 1
    assert [at_path(document, path) for path in ("a.1.b", "a.b", "a.0.c", "a.0.b.c", "a.99999")] == [None] * 5


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        (
            {"timestamp_prefix": "ts=", "separator": ";", "prefix": "h1=", "template": "{timestamp}:{body}"},
            "ts={t};h1={s}",
        ),
        ({"timestamp_prefix": "t=", "prefix": "v1="}, "t={t},v1={s}"),
        ({"timestamp_prefix": "time:", "separator": " ", "prefix": "sig:"}, "time:{t} sig:{s}"),
    ],
)
def test_a_time_beside_the_signature_takes_any_marks_and_separator(settings: dict[str, str], header: str) -> None:
    scheme = scheme_from({"header": "X-Mine", **settings})
    stamp = str(NOW // 1000)
    mark = b":" if ":{body}" in settings.get("template", "") else b"."
    proof = hmac.new(b"key", stamp.encode() + mark + b"{}", hashlib.sha256).hexdigest()
    request = WebhookRequest.build("POST", URL, {"X-Mine": header.format(t=stamp, s=proof)}, b"{}")
    assert refusal(scheme, request, [Secret("k", "key")]) is None
    moved = WebhookRequest.build("POST", URL, {"X-Mine": header.format(t=int(stamp) + 1, s=proof)}, b"{}")
    assert refusal(scheme, moved, [Secret("k", "key")]) is RefusalReason.MISMATCH


@pytest.mark.parametrize(
    ("form", "value"), [("hex", "6b6579"), ("base64", "a2V5"), ("base64", "a2V5Cg"), ("text", "key")]
)
def test_a_key_may_be_written_in_hex_or_base64(form: str, value: str) -> None:
    scheme: Scheme = generic("X-Mine", key=form)
    key = b"key\n" if value == "a2V5Cg" else b"key"
    proof = hmac.new(key, b"{}", hashlib.sha256).hexdigest()
    assert refusal(scheme, WebhookRequest.build("POST", URL, {"X-Mine": proof}, b"{}"), [Secret("k", value)]) is None


def graph(*states: object) -> WebhookRequest:
    document = {"value": [{"clientState": state, "changeType": "created"} for state in states]}
    return WebhookRequest.build("POST", URL, {}, json.dumps(document).encode())


def test_every_notification_of_graph_must_bear_the_secret() -> None:
    scheme, secret = preset("microsoft_graph"), Secret("s", "state")
    assert refusal(scheme, graph("state"), [secret]) is None
    assert refusal(scheme, graph("state", "state"), [secret]) is None
    for states in ((), ("other",), ("state", "other"), ("other", "state"), ("state", None), (7,), (["state"],), ("",)):
        assert refusal(scheme, graph(*states), [secret]) is not None, states
    for body in (b"", b"[]", b'{"value": {}}', b'{"value": 7}', b'{"value": [7]}', b'{"value": [[]]}'):
        assert refusal(scheme, WebhookRequest.build("POST", URL, {}, body), [secret]) is not None
