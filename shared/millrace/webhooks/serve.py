"""The whole way of a call, with an answer for whatever happens on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.engine.drafts import correlation_id as normalised
from millrace.model.errors import MillraceError, QueueFull
from millrace.model.queue_spec import MAX_BODY_BYTES
from millrace.signatures import SignatureInvalid
from millrace.webhooks.accept import IngressResult, accept
from millrace.webhooks.endpoint import Ingress, WebhookEndpoint
from millrace.webhooks.request import correlation_header, read_call
from millrace.webhooks.responses import Response, answer, refusal

SHED, REFUSED, FAILED = "shed", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Served:
    """An answer, and what a log and a metric may say about it: names and counts, nothing that a sender wrote."""

    response: Response
    outcome: str  #: a Result, or shed (no room), refused (the sender's fault), failed (ours)
    correlation_id: str
    webhook: str = ""  #: empty where no webhook of ours was called
    queue: str = ""
    message_id: str = ""
    secret: str = ""
    reason: str = ""  #: why it was refused
    error: BaseException | None = None  #: what failed, where it is ours


def serve(ingress: Ingress, event: Any) -> Served:
    """Answer a call. Never raises: what nobody foresaw is a 500 with the correlation id, and an `error` to log."""
    correlation_id = normalised(correlation_header(event), ingress.runtime.entropy)
    endpoint: WebhookEndpoint | None = None
    try:
        call = read_call(event)
        call.demand_size(MAX_BODY_BYTES)
        tenant, name = call.address()
        endpoint = ingress.endpoint(name)
        outcome = accept(ingress, endpoint, tenant, call, correlation_id)
        return _served(endpoint, outcome, answer(endpoint, outcome, correlation_id), correlation_id)
    except MillraceError as error:
        return _refused(endpoint, error, correlation_id)
    except Exception as error:  # noqa: BLE001 (the last line: a sender must get a 5xx, not a broken connection)
        return _refused(endpoint, error, correlation_id)


def _served(endpoint: WebhookEndpoint, outcome: IngressResult, response: Response, correlation_id: str) -> Served:
    return Served(
        response,
        outcome.result.value,
        correlation_id,
        webhook=endpoint.name,
        queue=endpoint.webhook.queue or "",
        message_id=outcome.receipt.message_id if outcome.receipt else "",
        secret=outcome.secret,
    )


def _refused(endpoint: WebhookEndpoint | None, error: Exception, correlation_id: str) -> Served:
    response = refusal(endpoint, error, correlation_id)
    ours = response.status >= 500 and not isinstance(error, QueueFull)
    outcome = SHED if isinstance(error, QueueFull) else FAILED if ours else REFUSED
    reason = error.code if isinstance(error, MillraceError) else "internal"
    if isinstance(error, SignatureInvalid):
        reason = error.reason.value
    return Served(
        response,
        outcome,
        correlation_id,
        webhook=endpoint.name if endpoint else "",
        queue=endpoint.webhook.queue or "" if endpoint else "",
        reason=reason,
        error=error if ours else None,
    )
