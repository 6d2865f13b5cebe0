"""Answers to a provider that asks whether an endpoint is ours.

Slack, Zoom, Twitch, Event Grid and SNS ask with a proof: `challenge` wants what `verify` gave. Meta, X, Dropbox, Nylas,
Trello, Graph and WooCommerce ask without one: `handshake` answers only what a stranger may know, and nothing is done.
What is echoed is short and made of characters that mean nothing to a browser, and is never served as HTML.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millrace.model.values import dataclass
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
#: Graph asks with a sentence; blanks and colons are no markup either, and nothing is signed with a secret there.
_SENTENCE = re.compile(r"[A-Za-z0-9._~+/=: -]{1,512}", re.ASCII)
_ORIGIN = re.compile(r"[a-z0-9.-]{1,253}", re.ASCII | re.IGNORECASE)
_PING = re.compile(rb"webhook_id=\d{1,12}")


@dataclass(frozen=True, slots=True)
class ChallengeResponse:
    """What to send back at once; nothing is enqueued."""

    status: int
    content_type: str
    body: bytes
    more: tuple[tuple[str, str], ...] = ()  #: headers beside the usual ones

    @property
    def headers(self) -> dict[str, str]:
        """The content type, and the order to believe it."""
        usual = {"content-type": self.content_type, "x-content-type-options": "nosniff", "cache-control": "no-store"}
        return {**usual, **dict(self.more)}


def handshake(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[Secret],
    now_ms: int,
    verify_tokens: Sequence[Secret] = (),
) -> ChallengeResponse | None:
    """The answer to a question that nobody signs; None for every other request.

    Raises SignatureInvalid where the verify token is wrong or the challenge is not a plain token, and
    ConfigurationMissing where no live token (Meta) or secret (X) is configured.
    """
    if scheme.challenge is None or scheme.challenge.signed:
        return None
    if scheme.challenge in _WITHOUT_SECRETS:
        return _plain_question(scheme.challenge, request)
    if request.method != "GET":
        return None
    if scheme.challenge is ChallengeKind.META:
        return _meta(request, verify_tokens, now_ms)
    if scheme.challenge is ChallengeKind.ECHO:
        asked = request.parameter("challenge")
        return None if asked is None else ChallengeResponse(200, _TEXT, _token(asked).encode("ascii"))
    return _x(request, secrets, now_ms)


#: Questions whose answer needs no secret, so that it can be given before one is set.
_WITHOUT_SECRETS = (ChallengeKind.HEAD, ChallengeKind.GRAPH, ChallengeKind.PING)


def asks_anybody(scheme: Scheme, request: WebhookRequest) -> bool:
    """Whether a POST may be such a question. An event that comes with a proof never is."""
    if request.method != "POST" or any(names.signature in request.headers for names in scheme.names):
        return False
    return scheme.challenge in _WITHOUT_SECRETS and _plain_question(scheme.challenge, request) is not None


def _plain_question(kind: ChallengeKind, request: WebhookRequest) -> ChallengeResponse | None:
    if kind is ChallengeKind.HEAD:
        return ChallengeResponse(200, _TEXT, b"") if request.method == "HEAD" else None
    if request.method != "POST":
        return None
    if kind is ChallengeKind.PING:
        ping = request.is_form and _PING.fullmatch(request.body) is not None
        return ChallengeResponse(200, _TEXT, b"") if ping else None
    asked = request.parameter("validationToken")
    if asked is None or request.body:
        return None
    if not _SENTENCE.fullmatch(asked):
        raise SignatureInvalid(RefusalReason.CHALLENGE_REFUSED)
    return ChallengeResponse(200, _TEXT, asked.encode("ascii"))


def challenge(scheme: Scheme, request: WebhookRequest, verified: Verified) -> ChallengeResponse | None:
    """The answer to a proven question of Slack, Zoom, Twitch or Event Grid; None for an ordinary event.

    Only the signed body decides what is a challenge. Raises SignatureInvalid where what would be echoed is not a
    plain token.
    """
    if scheme.challenge is None or not scheme.challenge.signed:
        return None
    if scheme.challenge is ChallengeKind.EVENT_GRID:
        return _event_grid(request)
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


def _event_grid(request: WebhookRequest) -> ChallengeResponse | None:
    """The code of Event Grid's own schema, or the permission that CloudEvents asks for."""
    if request.method == "OPTIONS":
        origin = request.headers.one("webhook-request-origin")
        if not _ORIGIN.fullmatch(origin):
            raise SignatureInvalid(RefusalReason.CHALLENGE_REFUSED)
        granted = (("allow", "POST"), ("webhook-allowed-origin", origin), ("webhook-allowed-rate", "*"))
        return ChallengeResponse(200, _TEXT, b"", granted)
    try:
        events = request.document()
    except ValueError:
        return None
    event = events[0] if isinstance(events, list) and len(events) == 1 else None
    if not isinstance(event, dict) or event.get("eventType") != "Microsoft.EventGrid.SubscriptionValidationEvent":
        return None
    data = event.get("data")
    return _json({"validationResponse": _token(data.get("validationCode") if isinstance(data, dict) else None)})


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
