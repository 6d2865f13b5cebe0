"""JSON web tokens: Google's, Plaid's and those with a shared secret, and the known ways to forge one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from millrace.signatures import (
    ConfigurationMissing,
    RefusalReason,
    Secret,
    WebhookRequest,
    idempotency_key,
    preset,
    verify,
)
from millrace.signatures.errors import KeysUnavailable
from millrace.signatures.signing import deliver
from millrace.signatures.tokens import read_keys
from tests.signatures.cases import NOW, URL, changed, refusal, secret_of, with_header
from tests.signatures.issuers import (
    ACCOUNT,
    AUDIENCE,
    Makers,
    ec_key,
    google_token,
    jwk,
    keys_of,
    plaid_token,
    rsa_key,
)

GOOGLE, PLAID = preset("google_pubsub"), preset("plaid")
CERTS = "https://www.googleapis.com/oauth2/v3/certs"
BODY = b'{"message": {"messageId": "7", "data": ""}}'
SHARED_SECRET = ["netlify", "vonage", "messagebird"]


def google(token: str, body: bytes = BODY) -> WebhookRequest:
    return WebhookRequest.build("POST", URL, {"authorization": f"Bearer {token}"}, body)


def plaid(token: str, body: bytes = BODY) -> WebhookRequest:
    return WebhookRequest.build("POST", URL, {"plaid-verification": token}, body)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict[str, Any], claims: dict[str, Any], key: bytes | None = None) -> str:
    """A token written by hand; with a key, its HMAC."""
    signed = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    return f"{signed}.{base64url(hmac.digest(key, signed.encode(), 'sha256')) if key is not None else ''}"


def claims_of(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


def test_googles_token_is_taken_and_dedupes_by_the_messages_id() -> None:
    request = google(google_token())
    verified = verify(GOOGLE, request, [secret_of(GOOGLE)], NOW, keys_of(Makers()))
    assert verified.signed_at_ms == NOW // 1000 * 1000 - 60_000
    assert idempotency_key(GOOGLE, request, verified) == "google_pubsub:id:7"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://accounts.google.com.evil.example"}, {"iss": None}, {"iss": ""},
        {"aud": AUDIENCE + "x"}, {"aud": None}, {"aud": [AUDIENCE, "other"]}, {"aud": ""},
        {"email": "other@mill.iam.gserviceaccount.com"}, {"email": None}, {"email_verified": False},
        {"email_verified": "true"}, {"email_verified": None}, {"exp": NOW // 1000 - 61}, {"exp": "soon"},
        {"iat": NOW // 1000 - 3_901}, {"iat": NOW // 1000 + 302}, {"iat": None}, {"iat": True}, {"iat": -1},
        {"nbf": NOW // 1000 + 120},
    ],
    ids=str,
)  # fmt: skip
def test_googles_token_for_somebody_else_or_another_time_is_refused(claims: dict[str, Any]) -> None:
    assert refusal(GOOGLE, google(google_token(**claims))) is not None


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, "HS256", "HS384", "RS384", "PS256", "ES256"])
def test_a_token_of_another_algorithm_is_refused_whatever_signed_it(algorithm: str | None) -> None:
    """`none`, and the public key taken for the secret of an HMAC."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = rsa_key().public_key().public_bytes(serialization.Encoding.PEM, form)
    makers = Makers()
    for key in (None, b"", public, public.strip(), json.dumps(jwk(rsa_key(), "g1")).encode(), makers.held[CERTS]):
        token = forged({"alg": algorithm, "kid": "g1", "typ": "JWT"}, claims_of(google_token()), key)
        assert refusal(GOOGLE, google(token), keys=keys_of(makers)) is RefusalReason.MALFORMED
    assert makers.asked == []
    for key in (None, b"", public):
        token = forged({"alg": "RS256", "kid": "g1"}, claims_of(google_token()), key)
        assert refusal(GOOGLE, google(token), keys=keys_of(makers)) is not None


def test_a_key_in_the_tokens_own_header_is_not_looked_at() -> None:
    own = rsa.generate_private_key(65_537, 2048)
    makers = Makers()
    for more in ({"jwk": jwk(own, "g1")}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/c"}, {}):
        token = google_token(key=own, headers=more)
        assert refusal(GOOGLE, google(token), keys=keys_of(makers)) is RefusalReason.MISMATCH
    assert {address.url for address in makers.asked} == {CERTS}


@pytest.mark.parametrize(
    "token",
    [
        *("", "a", "a.b", "a.b.c", "..", "a.b.c.d", "é.é.é", "eyJhbGciOiJSUzI1NiJ9", "W10.e30.AA"),
        *("eyJhbGciOiJSUzI1NiIsImtpZCI6MX0.e30.AA", "eyJhbGciOiJSUzI1NiJ9.W10.AA"),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refusal(GOOGLE, google(token)) is not None
    assert refusal(PLAID, plaid(token)) is not None


def test_another_word_than_bearer_and_two_tokens_are_refused() -> None:
    request = google(google_token())
    assert refusal(GOOGLE, with_header(request, "authorization", f"Basic {google_token()}")) is not None
    assert refusal(GOOGLE, with_header(request, "authorization", google_token())) is not None
    twice = changed(request, headers=[("authorization", f"Bearer {google_token()}")] * 2)
    assert refusal(GOOGLE, twice) is RefusalReason.AMBIGUOUS_HEADER


def test_a_token_with_critical_extensions_is_refused() -> None:
    token = forged({"alg": "RS256", "kid": "g1", "crit": ["exp"]}, claims_of(google_token()), b"x")
    assert refusal(GOOGLE, google(token)) is RefusalReason.MALFORMED


def test_a_new_key_is_found_and_made_up_ones_cost_a_question_a_minute() -> None:
    now, makers = [NOW], Makers()
    from millrace.signatures import PublishedKeys

    keys = PublishedKeys(makers, lambda: now[0])
    assert refusal(GOOGLE, google(google_token()), keys=keys) is None
    makers.held[CERTS] = json.dumps({"keys": [jwk(rsa_key(), "g1"), jwk(rsa_key(1), "g2")]}).encode()
    new = google(google_token(key=rsa_key(1), headers={"kid": "g2"}))
    assert refusal(GOOGLE, new, keys=keys) is RefusalReason.MISMATCH
    now[0] += 60_000
    assert refusal(GOOGLE, new, keys=keys) is None
    for number in range(200):
        made_up = google(google_token(headers={"kid": f"x{number}"}))
        assert refusal(GOOGLE, made_up, keys=keys) is RefusalReason.MISMATCH
    assert len(makers.asked) == 2
    now[0] += 60_000
    makers.down = True
    with pytest.raises(KeysUnavailable):
        verify(GOOGLE, made_up, [secret_of(GOOGLE)], NOW, keys)
    assert refusal(GOOGLE, new, keys=keys) is None


def test_googles_secret_names_audience_and_account() -> None:
    with pytest.raises(ConfigurationMissing, match="cannot verify") as missing:
        verify(GOOGLE, google(google_token()), [Secret("s", AUDIENCE)], NOW, keys_of(Makers()))
    assert "AUDIENCE EMAIL" in missing.value.problem
    both = [Secret("other", "https://a.example b@c"), Secret("ours", f"{AUDIENCE}  {ACCOUNT} ")]
    assert verify(GOOGLE, google(google_token()), both, NOW, keys_of(Makers())).secret_name == "ours"


def test_plaids_token_is_of_this_body_and_of_the_last_minutes() -> None:
    request = plaid(plaid_token(BODY))
    verified = verify(PLAID, request, [secret_of(PLAID)], NOW, keys_of(Makers()))
    assert idempotency_key(PLAID, request, verified) == f"plaid:sha256:{hashlib.sha256(BODY).hexdigest()}"
    assert refusal(PLAID, changed(request, body=BODY + b" ")) is RefusalReason.MISMATCH
    for claims in (
        {"request_body_sha256": None},
        {"request_body_sha256": 7},
        {"iat": None},
        {"iat": NOW // 1000 - 301},
    ):
        assert refusal(PLAID, plaid(plaid_token(BODY, **claims))) is not None
    assert refusal(PLAID, plaid(plaid_token(BODY, key=ec_key(1)))) is RefusalReason.MISMATCH


def test_plaid_is_asked_for_one_key_with_our_credentials() -> None:
    makers = Makers()
    assert refusal(PLAID, plaid(plaid_token(BODY)), keys=keys_of(makers)) is None
    (asked,) = makers.asked
    assert asked.url == "https://production.plaid.com/webhook_verification_key/get"
    assert json.loads(asked.question) == {"client_id": "client-1", "secret": "a secret of Plaid", "key_id": "p1"}
    sandbox = preset("plaid_sandbox")
    assert refusal(sandbox, plaid(plaid_token(BODY)), keys=keys_of(makers)) is None
    assert makers.asked[-1].url.startswith("https://sandbox.plaid.com/")
    with pytest.raises(ConfigurationMissing):
        verify(PLAID, plaid(plaid_token(BODY)), [Secret("s", "no colon")], NOW, keys_of(makers))


def test_plaids_expired_key_and_one_of_another_name_prove_nothing() -> None:
    place = "https://production.plaid.com/webhook_verification_key/get"
    for key in (jwk(ec_key(), "p1", expired_at=5), jwk(ec_key(), "p2", expired_at=None), jwk(rsa_key(), "p1")):
        makers = Makers(**{place: json.dumps({"key": key}).encode()})
        assert refusal(PLAID, plaid(plaid_token(BODY)), keys=keys_of(makers)) is RefusalReason.MISMATCH


def test_one_secret_without_keys_does_not_hide_another() -> None:
    class Half(Makers):
        def __call__(self, address: Any) -> bytes | None:
            self.down = b"client-2" in address.question
            return super().__call__(address)

    secrets = [Secret("new", "client-2:s"), Secret("old", "client-1:s")]
    assert verify(PLAID, plaid(plaid_token(BODY)), secrets, NOW, keys_of(Half())).secret_name == "old"
    with pytest.raises(KeysUnavailable):
        verify(PLAID, plaid(plaid_token(BODY)), secrets[:1], NOW, keys_of(Half()))


@pytest.mark.parametrize("name", SHARED_SECRET)
def test_a_token_with_a_shared_secret_is_of_its_body(name: str) -> None:
    scheme = preset(name)
    secret, header = Secret("s", "a shared secret"), scheme.names[0].signature
    request = deliver(scheme, secret, URL, BODY, NOW)
    assert refusal(scheme, request, [secret]) is None
    token = request.headers.one(header).removeprefix(scheme.prefix)
    claims, rules = claims_of(token), scheme.jwt
    assert rules is not None
    assert refusal(scheme, changed(request, body=BODY + b" "), [secret]) is RefusalReason.MISMATCH
    for algorithm in ("none", "HS384", "RS256", "hs256"):
        odd = forged({"alg": algorithm}, claims, secret.raw())
        assert refusal(scheme, with_header(request, header, scheme.prefix + odd), [secret]) is RefusalReason.MALFORMED
    others = [{**claims, rules.body_claim: hashlib.sha256(b"").hexdigest()}, {**claims, rules.body_claim: None}]
    others += [{**claims, "iss": "other"}] if rules.issuers else []
    others += [{**claims, "exp": NOW // 1000 - 61}, {**claims, rules.time_claim: 0}] if rules.time_claim else []
    others += [{**claims, rules.url_claim: "0" * 64}] if rules.url_claim else []
    for wrong in others:
        odd = forged({"alg": "HS256"}, wrong, secret.raw())
        assert refusal(scheme, with_header(request, header, scheme.prefix + odd), [secret]) is not None


def test_weak_foreign_and_broken_keys_of_a_set_are_left_out() -> None:
    weak = rsa.generate_private_key(65_537, 1024)  # noqa: S505
    keys = [
        jwk(weak, "weak"), jwk(rsa_key(), "enc", use="enc"), {"kty": "oct", "k": "AAAA", "kid": "oct"}, {"kty": "RSA"},
        7, {}, {**jwk(rsa_key(), "g1"), "kid": ""}, jwk(rsa_key(), "good"),
    ]  # fmt: skip
    assert set(read_keys(json.dumps({"keys": keys}).encode())) == {"good"}
    for odd in (b"", b"[]", b"{}", b'{"keys": 7}', b"\xff", b'{"key": 7}'):
        with pytest.raises(ValueError):  # noqa: PT011
            read_keys(odd)
