"""Answers to a provider that asks whether an endpoint is ours.

Slack, Zoom and Twitch ask with a signed POST: `challenge` wants the proof that `verify` gave. Meta and X ask with an
unsigned GET: `handshake` answers only what a stranger may know. What is echoed is short and made of characters that
mean nothing to a browser, and is never served as HTML.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.signatures.errors import ConfigurationMissing, RefusalReason, SignatureInvalid
from millrace.signatures.keys import Secret
from millrace.signatures.request import WebhookRequest
from millrace.signatures.scheme import ChallengeKind, Scheme

if TYPE_CHECKING:
    from millrace.signatures.verification import Verified

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"

#: No brace, bracket, quote, colon, angle or space: a token can be neither markup, nor JSON text, nor `v0:…:…`.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChallengeResponse:
    """What to send back at once; nothing is enqueued."""

    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The content type, and the order to believe it."""
        return {"content-type": self.content_type, "x-content-type-options": "nosniff", "cache-control": "no-store"}


def handshake(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[Secret],
    now_ms: int,
    verify_tokens: Sequence[Secret] = (),
) -> ChallengeResponse | None:
    """The answer to an unsigned GET of Meta, X, Dropbox or Nylas; None for every other request.

    Raises SignatureInvalid where the verify token is wrong or the challenge is not a plain token, and
    ConfigurationMissing where no live token (Meta) or secret (X) is configured.
    """
    if request.method != "GET" or scheme.challenge is None or scheme.challenge.signed:
        return None
    if scheme.challenge is ChallengeKind.META:
        return _meta(request, verify_tokens, now_ms)
    if scheme.challenge is ChallengeKind.ECHO:
        asked = request.parameter("challenge")
        return None if asked is None else ChallengeResponse(200, _TEXT, _token(asked).encode("ascii"))
    return _x(request, secrets, now_ms)


def challenge(scheme: Scheme, request: WebhookRequest, verified: Verified) -> ChallengeResponse | None:
    """The answer to a signed challenge of Slack, Zoom or Twitch; None for an ordinary event.

    Only the signed body decides what is a challenge. Raises SignatureInvalid where what would be echoed is not a
    plain token.
    """
    if scheme.challenge is None or not scheme.challenge.signed:
        return None
    document = request.object_document()
    if scheme.challenge is ChallengeKind.SLACK and document.get("type") == "url_verification":
        return _json({"challenge": _token(document.get("challenge"))})
    if scheme.challenge is ChallengeKind.ZOOM and document.get("event") == "endpoint.url_validation":
        payload = document.get("payload")
        plain = _token(payload.get("plainToken") if isinstance(payload, dict) else None)
        proof = hmac.digest(verified.secret.raw(), plain.encode("ascii"), "sha256").hex()
        return _json({"plainToken": plain, "encryptedToken": proof})
    if scheme.challenge is ChallengeKind.TWITCH and "challenge" in document and "event" not in document:
        return ChallengeResponse(200, _TEXT, _token(document["challenge"]).encode("ascii"))
    return None


def could_be_crc_token(body: bytes) -> bool:
    """Whether X's handshake would sign these bytes for any stranger who asks.

    X signs bodies and tokens with one key and no mark between them, so a body that reads as a token proves nothing.
    """
    return len(body) <= 256 and _TOKEN.fullmatch(body.decode("latin-1")) is not None


def _meta(request: WebhookRequest, verify_tokens: Sequence[Secret], now_ms: int) -> ChallengeResponse | None:
    if request.parameter("hub.mode") != "subscribe":
        return None
    live = _live(verify_tokens, now_ms, "verify token")
    offered = (request.parameter("hub.verify_token") or "").encode("utf-8", "replace")
    if not sum([hmac.compare_digest(secret.raw(), offered) for secret in live]):
        raise SignatureInvalid(RefusalReason.CHALLENGE_REFUSED)
    return ChallengeResponse(200, _TEXT, _token(request.parameter("hub.challenge")).encode("ascii"))


def _x(request: WebhookRequest, secrets: Sequence[Secret], now_ms: int) -> ChallengeResponse | None:
    token = request.parameter("crc_token")
    if token is None:
        return None
    newest = _live(secrets, now_ms, "secret")[0]
    proof = b64encode(hmac.digest(newest.raw(), _token(token).encode("ascii"), "sha256")).decode("ascii")
    return _json({"response_token": f"sha256={proof}"})


def _live(secrets: Sequence[Secret], now_ms: int, what: str) -> list[Secret]:
    live = [secret for secret in secrets if secret.live(now_ms)]
    if not live:
        raise ConfigurationMissing(f"no live {what} among {[secret.name for secret in secrets]}")
    return live


def _token(value: object) -> str:
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise SignatureInvalid(RefusalReason.CHALLENGE_REFUSED)
    return value


def _json(document: dict[str, str]) -> ChallengeResponse:
    return ChallengeResponse(200, _JSON, json.dumps(document).encode("utf-8"))
