"""Accept a webhook: authenticate its sender, then admit and enqueue its message, or run its command."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from millrace.admission import admit as admission
from millrace.admission.admit import fit_key
from millrace.admission.typed_message import SOURCE_IP, WEBHOOK
from millrace.engine.drafts import IDEMPOTENCY_KEY_BYTES
from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus
from millrace.model.message import Draft
from millrace.signatures import ChallengeResponse, Verified, WebhookRequest, idempotency_key, retained_headers
from millrace.webhooks.authenticate import answer_question, authenticate_webhook, signed_question
from millrace.webhooks.endpoint import Ingress, WebhookEndpoint
from millrace.webhooks.sync_commands import run_at_once

DEFAULT_CONTENT_TYPE = "application/json"
#: Bytes of headers that are kept with a message; they count towards its write units.
KEPT_HEADER_BYTES = 4 * 1024


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
    if request.method != "POST":
        return IngressResult(IngressOutcome.ANSWERED, answer=answer_question(endpoint, request, ingress.secrets, now))
    proof = authenticate_webhook(endpoint, request, ingress.secrets, now)
    secret = proof.secret_name if proof else ""
    if answer := signed_question(endpoint, request, proof):
        return IngressResult(IngressOutcome.ANSWERED, answer=answer, secret=secret)
    draft = _draft(endpoint, request, correlation_id)
    definition = endpoint.definition
    if definition is None:
        value = run_at_once(endpoint.webhook, draft, now, request.document, ingress.run_command)
        return IngressResult(IngressOutcome.RAN, value=value, secret=secret)
    queue = ingress.runtime.queue(tenant, definition.spec)
    own_key = fit_key(_own_key(endpoint, request, proof), IDEMPOTENCY_KEY_BYTES)
    receipt = admission.accept(queue, definition, draft, fallback_key=own_key, document=request.document)
    return IngressResult(_outcome(receipt), receipt, secret=secret)


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
