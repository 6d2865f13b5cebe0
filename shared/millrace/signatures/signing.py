"""Signing as a provider does: for the outbound `http` target, the CLI and tests."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.signatures.covered import body_hash_parameter, digest, messages, written
from millrace.signatures.errors import ConfigurationMissing
from millrace.signatures.keys import Secret
from millrace.signatures.request import Headers, WebhookRequest
from millrace.signatures.scheme import Form, JwtRules, Layout, Scheme, SignaturePlace, TimestampFormat


def sign(
    scheme: Scheme,
    secrets: Secret | Sequence[Secret],
    body: bytes,
    now_ms: int,
    *,
    url: str = "",
    delivery_id: str = "",
    content_type: str = "application/json",
) -> dict[str, str]:
    """The headers that prove this body to whoever holds the secret.

    Several secrets give several signatures where the scheme has room for them (Standard Webhooks, Stripe,
    PagerDuty), else the first one signs. Raises ConfigurationMissing where a part that is signed was not given.
    """
    keys = [secrets] if isinstance(secrets, Secret) else list(secrets)
    names = scheme.names[0]
    if not keys:
        raise ConfigurationMissing("signing needs a secret")
    if scheme.published:
        raise ConfigurationMissing(f"only {scheme.name} can sign as {scheme.name}: have it send a test delivery")
    if scheme.jwt is not None:
        return {names.signature: scheme.prefix + _token(scheme.jwt, keys[0], url, body, now_ms)}
    if (scheme.signs_id and not delivery_id) or ("{url}" in scheme.template and not url):
        raise ConfigurationMissing(f"scheme {scheme.name!r} signs the id or the URL of a delivery: give it")
    if scheme.place is not SignaturePlace.HEADER:
        raise ConfigurationMissing(f"scheme {scheme.name!r} signs in the {scheme.place}, not in a header: use deliver")
    stamp = _stamp(scheme.clock, now_ms) if "{timestamp}" in scheme.template else ""
    request = WebhookRequest.build("POST", url, {"content-type": content_type}, body)
    message = messages(scheme, request, stamp, delivery_id)[0]
    headers = {names.signature: _signature_header(scheme, keys, message, stamp)}
    if scheme.layout is Layout.NUMBERED:
        signed = enumerate(keys, start=1)
        headers = {f"{names.signature[:-1]}{number}": _proof(scheme, key, message) for number, key in signed}
    if names.timestamp:
        headers[names.timestamp] = stamp
    if names.id and delivery_id:
        headers[names.id] = delivery_id
    return headers


def deliver(
    scheme: Scheme,
    secrets: Secret | Sequence[Secret],
    url: str,
    body: bytes,
    now_ms: int,
    *,
    headers: Mapping[str, str] | None = None,
    delivery_id: str = "",
) -> WebhookRequest:
    """A whole signed request, ready to post.

    Where the provider carries a fact about the delivery in the body or the URL (Linear's time, the body's hash of
    Twilio's JSON), it is written there first: post the body and the URL of the result, not the ones given.
    """
    given = {name.lower(): value for name, value in (headers or {}).items()}
    content_type = given.setdefault("content-type", "application/json")
    if scheme.timestamp_field:
        body = _dated(scheme, body, now_ms)
    if scheme.place is not SignaturePlace.HEADER and not scheme.published:
        return _deliver_elsewhere(scheme, secrets, url, body, now_ms, given, delivery_id)
    if scheme.form is Form.TWILIO and content_type.startswith("application/json"):
        url = _with_body_hash(url, body)
    signed = sign(scheme, secrets, body, now_ms, url=url, delivery_id=delivery_id, content_type=content_type)
    request = WebhookRequest.build("POST", url, given, body)
    return replace(request, headers=Headers({**given, **signed}))


def _deliver_elsewhere(
    scheme: Scheme,
    secrets: Secret | Sequence[Secret],
    url: str,
    body: bytes,
    now_ms: int,
    headers: Mapping[str, str],
    delivery_id: str,
) -> WebhookRequest:
    """A request with its signature in the query or in the body."""
    keys = [secrets] if isinstance(secrets, Secret) else list(secrets)
    names, stamp = scheme.names[0], _stamp(scheme.clock, now_ms) if "{timestamp}" in scheme.template else ""
    unsigned = WebhookRequest.build("POST", url, headers, body)
    proof = _signature_header(scheme, keys, messages(scheme, unsigned, stamp, delivery_id)[0], stamp)
    if scheme.place is SignaturePlace.QUERY:
        return WebhookRequest.build(
            "POST", f"{url}{'&' if '?' in url else '?'}{names.signature}={proof}", headers, body
        )
    document = json.loads(body)
    for path, value in ((names.timestamp, stamp), (names.id, delivery_id), (names.signature, proof)):
        if path:
            _put(document, path.split("."), value)
    return WebhookRequest.build("POST", url, headers, json.dumps(document, ensure_ascii=False).encode("utf-8"))


def _put(document: Any, path: list[str], value: str) -> None:
    if path[0] == "*":
        for item in document:
            _put(item, path[1:], value)
        return
    for number, step in enumerate(path[:-1]):
        if path[number + 1] == "*":
            _put(document.setdefault(step, []), path[number + 1 :], value)
            return
        document = document[int(step)] if isinstance(document, list) else document.setdefault(step, {})
    document[path[-1]] = value


def _signature_header(scheme: Scheme, keys: Sequence[Secret], message: bytes, stamp: str) -> str:
    if scheme.layout is Layout.SPACES:
        return " ".join(_standard(scheme, secret, message) for secret in keys)
    proofs = [scheme.prefix + _proof(scheme, secret, message) for secret in keys]
    if scheme.layout is Layout.STAMPED:
        return scheme.separator.join([f"{scheme.stamp_prefix}{stamp}", *proofs])
    if scheme.layout is Layout.PAIRS:
        return " ".join(f"{scheme.stamp_prefix}{stamp}{scheme.separator}{proof}" for proof in proofs)
    return ",".join(proofs) if scheme.layout is Layout.COMMAS else proofs[0]


def _proof(scheme: Scheme, secret: Secret, message: bytes) -> str:
    if scheme.asymmetric:
        return written(scheme, secret.signs(scheme, message)).decode("ascii")
    return digest(scheme, secret.key(scheme.key), message).decode("utf-8")


def _token(rules: JwtRules, secret: Secret, url: str, body: bytes, now_ms: int) -> str:
    """A JSON web token of this delivery, valid for five minutes."""
    claims: dict[str, Any] = {"iss": rules.issuers[0]} if rules.issuers else {}
    if rules.time_claim:
        claims |= {rules.time_claim: now_ms // 1000, "exp": now_ms // 1000 + 300}
        claims["jti"] = hashlib.sha256(b"%d %b" % (now_ms, body)).hexdigest()[:32]
    hashed = ((rules.body_claim, body), (rules.url_claim, url.encode("utf-8")))
    claims |= {name: hashlib.sha256(data).hexdigest() for name, data in hashed if name}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    signed = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    proof = urlsafe_b64encode(hmac.digest(secret.raw(), signed, "sha256")).rstrip(b"=")
    return b".".join((signed, proof)).decode("ascii")


def _standard(scheme: Scheme, secret: Secret, message: bytes) -> str:
    if secret.private:
        return f"v1a,{b64encode(secret.ed25519(message)).decode('ascii')}"
    return f"v1,{digest(scheme, secret.shared_key(), message).decode('ascii')}"


def _stamp(clock: TimestampFormat, now_ms: int) -> str:
    if clock is TimestampFormat.RFC3339:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(now_ms // 1000 if clock is TimestampFormat.SECONDS else now_ms)


def _dated(scheme: Scheme, body: bytes, now_ms: int) -> bytes:
    document = json.loads(body)
    document[scheme.timestamp_field] = now_ms
    return json.dumps(document, ensure_ascii=False).encode("utf-8")


def _with_body_hash(url: str, body: bytes) -> str:
    if body_hash_parameter(url) is not None:
        return url
    return f"{url}{'&' if '?' in url else '?'}bodySHA256={hashlib.sha256(body).hexdigest()}"
