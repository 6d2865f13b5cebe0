"""What a signature covers."""

from __future__ import annotations

import pytest

from millrace.signatures import RefusalReason, Secret, WebhookRequest, preset
from millrace.signatures.signing import deliver
from tests.signatures.cases import (
    NOW,
    URL,
    changed,
    delivery,
    refusal,
    with_header,
)

FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_twilio_json_request_does_not_pass_as_an_empty_form() -> None:
    scheme = preset("twilio")
    request = delivery(scheme)
    emptied = with_header(changed(request, body=b""), "content-type", FORM["content-type"])
    assert refusal(scheme, emptied) is RefusalReason.MISMATCH


def test_twilio_body_without_hash_must_be_a_form() -> None:
    """A signature over the bare URL must not carry whatever body is put under it."""
    scheme, secret = preset("twilio"), Secret("current", "token")
    empty = deliver(scheme, secret, URL, b"", NOW, headers=FORM)
    assert refusal(scheme, empty, [secret]) is None
    for content_type in ("application/json", "text/plain", "multipart/form-data"):
        filled = with_header(changed(empty, body=b'{"evil":1}'), "content-type", content_type)
        assert refusal(scheme, filled, [secret]) is RefusalReason.MALFORMED
    assert refusal(scheme, changed(empty, body=b"=", headers=[("x-twilio-signature", "x")]), [secret]) is not None


@pytest.mark.parametrize("body", [b"\xff=1", b"a=%ff", b"a=%ed%a0%80", b"&".join([b"a=1"] * 2001)])
def test_twilio_form_that_cannot_be_read_is_malformed(body: bytes) -> None:
    request = WebhookRequest.build("POST", URL, {**FORM, "x-twilio-signature": "AAAA"}, body)
    assert refusal(preset("twilio"), request) is RefusalReason.MALFORMED


def test_twilio_body_hash_named_twice_is_refused() -> None:
    scheme = preset("twilio")
    request = delivery(scheme)
    twice = changed(request, url=request.url + "&bodySHA256=" + "0" * 64)
    assert refusal(scheme, twice) is RefusalReason.MALFORMED
