"""Headers that are kept with a message: an allow list, and never a proof."""

from __future__ import annotations

from millrace.signatures import (
    Headers,
    generic,
    preset,
    retained_headers,
)
from tests.signatures.cases import SCHEMES

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
