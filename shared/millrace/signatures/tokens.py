"""Deliveries that a JSON web token proves: with a shared secret, or with keys that its maker publishes.

The row says the algorithm; a token that names another one, or none, is refused before any key is looked at. So a
public key can never be taken for a shared secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from millrace.model.strict_json import parse
from millrace.signatures.certified import Proven
from millrace.signatures.covered import encoded
from millrace.signatures.errors import ConfigurationMissing, KeysUnavailable, RefusalReason, SignatureInvalid
from millrace.signatures.keys import Secret
from millrace.signatures.published import KeyAddress, PublishedKeys
from millrace.signatures.request import WebhookRequest, is_plain
from millrace.signatures.scheme import JwtRules, Scheme
from millrace.signatures.timestamps import demand_near

if TYPE_CHECKING:
    from jwt import PyJWK

#: How far a maker's clock may be from ours, for `exp` and `nbf`.
_LEEWAY_S = 60


class _Token(NamedTuple):
    key_id: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def proven_by_token(
    scheme: Scheme,
    rules: JwtRules,
    request: WebhookRequest,
    secrets: Sequence[Secret],
    now_ms: int,
    keys: PublishedKeys,
) -> Proven:
    """Prove a request by its token. What the token says is checked before a key is fetched.

    Raises SignatureInvalid, and KeysUnavailable where the keys cannot be had.
    """
    token = _read(scheme, rules, request)
    made_at = _check_claims(scheme, rules, token.claims, now_ms)
    _check_hashes(rules, token.claims, request)
    fitting, unknown = [], None
    for secret in secrets:
        try:
            if _meant_for(rules, secret, token.claims) and _signed(rules, token, secret, keys):
                fitting.append(secret)
        except KeysUnavailable as silent:
            unknown = silent  # of another secret they may be at hand
    live = [secret for secret in fitting if secret.live(now_ms)]
    if live:
        return Proven(live[0], made_at, None, request.body)
    if unknown is not None:
        raise unknown
    raise SignatureInvalid(RefusalReason.SECRET_NOT_LIVE if fitting else RefusalReason.MISMATCH)


def _read(scheme: Scheme, rules: JwtRules, request: WebhookRequest) -> _Token:
    text = request.headers.one(scheme.names[0].signature)
    import jwt

    try:
        if not text.startswith(scheme.prefix):
            raise ValueError("another kind of authorisation")
        read = jwt.PyJWS().decode_complete(text.removeprefix(scheme.prefix), options={"verify_signature": False})
        claims = parse(read["payload"])
    except (jwt.InvalidTokenError, ValueError):
        raise SignatureInvalid(RefusalReason.MALFORMED) from None
    header = read["header"]
    key_id = header.get("kid", "")
    wrong = header.get("alg") != rules.algorithm or not isinstance(claims, dict)
    if wrong or not isinstance(key_id, str) or not (is_plain(key_id) or not rules.keys):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    signed = text.removeprefix(scheme.prefix).rpartition(".")[0]
    return _Token(key_id, claims, encoded(signed), read["signature"])


def _check_claims(scheme: Scheme, rules: JwtRules, claims: Mapping[str, Any], now_ms: int) -> int | None:
    """When the token was made, where it says so."""
    if rules.issuers and claims.get("iss") not in rules.issuers:
        raise SignatureInvalid(RefusalReason.MISMATCH)
    times = {name: claims[name] for name in {"exp", "nbf", rules.time_claim} if name in claims}
    if any(type(value) not in (int, float) for value in times.values()):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    now = now_ms / 1000
    early = rules.time_claim != "nbf" and times.get("nbf", now) - _LEEWAY_S > now
    if early or times.get("exp", now) + _LEEWAY_S < now:
        raise SignatureInvalid(RefusalReason.TIMESTAMP_OUTSIDE_TOLERANCE)
    if not rules.time_claim:
        return None
    if rules.time_claim not in times or not 0 < times[rules.time_claim] < 1e11:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    made_at = int(times[rules.time_claim] * 1000)
    demand_near(scheme, made_at, now_ms)
    return made_at


def _check_hashes(rules: JwtRules, claims: Mapping[str, Any], request: WebhookRequest) -> None:
    """The token must be of this body, and of this URL where its maker says which."""
    if rules.body_claim and not _is_hash(claims.get(rules.body_claim), request.body):
        raise SignatureInvalid(RefusalReason.MISMATCH)
    urls = [encoded(url) for url in (request.url, *request.other_urls)]
    if rules.url_claim and not any(_is_hash(claims.get(rules.url_claim), url) for url in urls):
        raise SignatureInvalid(RefusalReason.MISMATCH)


def _is_hash(claimed: object, data: bytes) -> bool:
    expected = hashlib.sha256(data).hexdigest()
    return isinstance(claimed, str) and hmac.compare_digest(encoded(claimed), expected.encode("ascii"))


def _meant_for(rules: JwtRules, secret: Secret, claims: Mapping[str, Any]) -> bool:
    """Whether the token is for us, from the account that we expect."""
    if not rules.identity:
        return True
    audience, _, email = secret.value.strip().partition(" ")
    if not email.strip():
        raise ConfigurationMissing(f"secret {secret.name!r} is not `AUDIENCE EMAIL`")
    verified = claims.get("email_verified") is True
    return verified and claims.get("aud") == audience and claims.get("email") == email.strip()


def _signed(rules: JwtRules, token: _Token, secret: Secret, keys: PublishedKeys) -> bool:
    from jwt.algorithms import get_default_algorithms

    algorithm = get_default_algorithms()[rules.algorithm]
    if not rules.keys:
        return algorithm.verify(token.signed, secret.raw(), token.signature)
    key = _published_key(rules, token.key_id, secret, keys)
    return key is not None and algorithm.verify(token.signed, key.key, token.signature)


def _published_key(rules: JwtRules, key_id: str, secret: Secret, keys: PublishedKeys) -> PyJWK | None:
    """The maker's key of that name. One that is not known is looked for again, at most once a minute."""
    address = KeyAddress(rules.keys, _question(key_id, secret) if rules.asked_by_id else b"")
    found = _of_kind(rules, keys.get(address, read_keys).get(key_id))
    if found is None and keys.refresh(address, read_keys):
        found = _of_kind(rules, keys.get(address, read_keys).get(key_id))
    return found


def _of_kind(rules: JwtRules, key: PyJWK | None) -> PyJWK | None:
    return key if key is not None and key.algorithm_name == rules.algorithm else None


def _question(key_id: str, secret: Secret) -> bytes:
    client, _, password = secret.value.partition(":")
    if not password:
        raise ConfigurationMissing(f"secret {secret.name!r} is not `CLIENT_ID:SECRET`")
    return json.dumps({"client_id": client, "secret": password, "key_id": key_id}).encode()


def read_keys(document: bytes) -> dict[str, PyJWK]:
    """The keys of a set (or the one of Plaid's answer) that can be used and have not expired, by their ids.

    Raises ValueError for a document that is neither.
    """
    import jwt

    read = parse(document)
    listed = read.get("keys") if isinstance(read, dict) else None
    if listed is None and isinstance(read, dict) and isinstance(read.get("key"), dict):
        listed = [] if read["key"].get("expired_at") is not None else [read["key"]]
    if not isinstance(listed, list):
        raise ValueError("no set of keys")
    found: dict[str, PyJWK] = {}
    for one in listed:
        try:
            key = jwt.PyJWK(one)
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
            continue  # of a kind that is not used here
        weak = key.Algorithm.check_key_length(key.key)
        if key.key_type in ("RSA", "EC") and key.key_id and key.public_key_use in (None, "sig") and not weak:
            found[key.key_id] = key
    return found
