"""Accept a webhook: authenticate its sender, then admit and enqueue its message, or run its command."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from millrace.admission import admit as admission
from millrace.admission.admit import SOURCE_IP, fit_key
from millrace.engine.drafts import IDEMPOTENCY_KEY_BYTES, WEBHOOK
from millrace.engine.enqueue import Receipt
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus
from millrace.http.problems import MethodNotAllowed
from millrace.model.message import Draft
from millrace.model.values import dataclass
from millrace.signatures import (
    ChallengeKind,
    ChallengeResponse,
    PublishedKeys,
    Scheme,
    SecretSource,
    SignatureInvalid,
    Verified,
    WebhookRequest,
    authenticate,
    challenge,
    handshake,
    idempotency_key,
    retained_headers,
)
from millrace.signatures.confirmations import confirm
from millrace.webhooks.endpoint import Ingress, WebhookEndpoint
from millrace.webhooks.sync_commands import run_at_once

DEFAULT_CONTENT_TYPE = "application/json"
#: Bytes of headers that are kept with a message; they count towards its write units.
KEPT_HEADER_BYTES = 4 * 1024
#: `GET`, `HEAD` and `OPTIONS` are for the questions of some providers, and only where they ask one.
ALLOWED = ("POST",)
log = logging.getLogger(__name__)


class IngressOutcome(StrEnum):
    """What became of a call that was not refused."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"
    ANSWERED = "answered"  #: a provider's question
    RAN = "ran"  #: a synchronous command


@dataclass(frozen=True, slots=True)
class IngressResult:
    """What became of a call, and what its sender is answered."""

    result: IngressOutcome
    receipt: Receipt | None = None
    answer: ChallengeResponse | None = None
    value: Any = None  #: what a synchronous command gave
    secret: str = ""  #: name of the secret that the signature was made with


def accept(
    ingress: Ingress, endpoint: WebhookEndpoint, tenant: str, request: WebhookRequest, correlation_id: str
) -> IngressResult:
    """Take one request to its endpoint. Once this returns a receipt, the message is the queue's.

    Raises SignatureInvalid and ConfigurationMissing (nothing was read), InvalidMessage, QueueFull and
    StoreUnavailable (nothing was accepted, or repeat it: the idempotency key holds).
    """
    now = ingress.runtime.clock()
    if endpoint.is_question(request):
        return IngressResult(IngressOutcome.ANSWERED, answer=answer_question(endpoint, request, ingress, now))
    proof = authenticate_webhook(endpoint, request, ingress.secrets, now, ingress.keys)
    secret = proof.secret_name if proof else ""
    if answer := signed_question(endpoint, request, proof, ingress.keys):
        return IngressResult(IngressOutcome.ANSWERED, answer=answer, secret=secret)
    request = endpoint.read(request)
    draft = _draft(endpoint, request, correlation_id)
    definition = endpoint.definition
    if definition is None:
        value = run_at_once(endpoint.webhook, draft, now, request.document, ingress.run_command)
        return IngressResult(IngressOutcome.RAN, value=value, secret=secret)
    queue = ingress.runtime.queue(tenant, definition.spec)
    own_key = fit_key(_own_key(endpoint, request, proof), IDEMPOTENCY_KEY_BYTES)
    receipt = admission.accept(queue, definition, draft, fallback_key=own_key, document=request.document)
    _note_another_body(queue, draft, receipt)
    return IngressResult(_outcome(receipt), receipt, _answer_to_a_form(endpoint, request), secret=secret)


def _answer_to_a_form(endpoint: WebhookEndpoint, request: WebhookRequest) -> ChallengeResponse | None:
    """Nothing, for a provider that shows what it is answered to whoever filled in the form."""
    silent = endpoint.scheme is not None and endpoint.scheme.facts.empty_answer_to_forms and request.is_form
    return ChallengeResponse(200, "text/plain; charset=utf-8", b"") if silent else None


def _note_another_body(queue: Queue, draft: Draft, receipt: Receipt) -> None:
    """Say that a repeat has another body than the message of its key. A provider can do nothing about it."""
    known = receipt.existing
    if known is not None and known.body.encrypted:
        return  # the ingress may encrypt, and read nothing that is
    if receipt.duplicate and known is not None and not queue.runtime.bodies.is_body_of(known, draft.body):
        extra = {"action": "idempotency_conflict", "queue": queue.spec.name, "message_id": receipt.message_id}
        log.info("A repeat has another body than the message of its key.", extra=extra)


def _outcome(receipt: Receipt) -> IngressOutcome:
    if receipt.status is MessageStatus.FILTERED:
        return IngressOutcome.FILTERED
    return IngressOutcome.DUPLICATE if receipt.duplicate else IngressOutcome.ACCEPTED


def _draft(endpoint: WebhookEndpoint, request: WebhookRequest, correlation_id: str) -> Draft:
    kept = retained_headers(endpoint.scheme, request.headers)
    content_type = ", ".join(request.headers.all("content-type"))[:256]
    return Draft(
        request.body,
        content_type=_sendable(content_type) or DEFAULT_CONTENT_TYPE,
        headers={**_fitting(kept), SOURCE_IP: _sendable(request.source_ip)[:64]},
        correlation_id=correlation_id,
        source=f"{WEBHOOK}{endpoint.name}",
    )


def _fitting(headers: dict[str, str]) -> dict[str, str]:
    """As many of the headers, in their order, as there is room for, and only what a table can hold."""
    kept: dict[str, str] = {}
    room = KEPT_HEADER_BYTES
    for name, value in headers.items():
        clean = _sendable(value)
        room -= len(name) + len(clean.encode())
        if room < 0:
            break
        kept[name] = clean
    return kept


def _sendable(text: str) -> str:
    """The text without half surrogate pairs, which no store can write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _own_key(endpoint: WebhookEndpoint, request: WebhookRequest, proof: Verified | None) -> str:
    """The key where the definition gives none: the provider's delivery id, or the body's hash."""
    if endpoint.scheme is None or proof is None:
        return f"unsigned:sha256:{hashlib.sha256(request.body).hexdigest()}"
    return idempotency_key(endpoint.scheme, request, proof)


def answer_question(
    endpoint: WebhookEndpoint, request: WebhookRequest, ingress: Ingress, now: int
) -> ChallengeResponse:
    """The answer to a provider's question. Raises MethodNotAllowed where that is no question of its provider."""
    scheme, secrets = endpoint.scheme, ingress.secrets
    if scheme is None or scheme.challenge is None:
        raise MethodNotAllowed(request.method, ALLOWED)
    if scheme.challenge is ChallengeKind.EVENT_GRID and request.method == "OPTIONS":
        proof = authenticate_webhook(endpoint, request, secrets, now)
        answer = challenge(scheme, request, proof) if proof else None
    elif request.method == "GET":
        answer = _answer_to_get(endpoint, scheme, request, secrets, now)
    else:
        answer = handshake(scheme, request, (), now)
    if answer is None:
        raise MethodNotAllowed(request.method, ALLOWED)
    return answer


def _answer_to_get(
    endpoint: WebhookEndpoint, scheme: Scheme, request: WebhookRequest, secrets: SecretSource, now: int
) -> ChallengeResponse | None:
    if scheme.challenge is None or scheme.challenge.signed:
        return None
    moment = datetime.fromtimestamp(now / 1000, UTC)
    tokens = endpoint.webhook.tokens_at(moment)
    references = tokens or endpoint.webhook.secrets_at(moment)

    def ask() -> ChallengeResponse | None:
        found = secrets.resolve(references)
        return handshake(scheme, request, found, now, found if tokens else ())

    try:
        return ask()
    except SignatureInvalid as refused:
        if not (refused.reason.may_be_rotation and secrets.refresh(references)):
            raise
        return ask()


def authenticate_webhook(
    endpoint: WebhookEndpoint,
    request: WebhookRequest,
    secrets: SecretSource,
    now: int,
    keys: PublishedKeys | None = None,
) -> Verified | None:
    """The proof that the provider sent this; None where the definition lets anybody call."""
    if endpoint.scheme is None:
        return None
    references = endpoint.webhook.secrets_at(datetime.fromtimestamp(now / 1000, UTC))
    return authenticate(endpoint.scheme, request, secrets, references, now, keys)


def signed_question(
    endpoint: WebhookEndpoint, request: WebhookRequest, proof: Verified | None, keys: PublishedKeys | None = None
) -> ChallengeResponse | None:
    """The answer to a provider's proven question; None for an event, and for all of a provider that asks nothing."""
    if endpoint.scheme is None or proof is None or endpoint.scheme.challenge is None:
        return None
    if endpoint.scheme.challenge is ChallengeKind.SNS:
        return confirm(request, keys)
    return challenge(endpoint.scheme, request, proof)
