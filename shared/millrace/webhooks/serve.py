"""The whole way of a call, with an answer for whatever happens on it, in the form that API Gateway takes."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from millrace.engine.drafts import correlation_id as normalised
from millrace.engine.enqueue import Receipt
from millrace.http.problems import problem
from millrace.model.errors import MillraceError, QueueFull
from millrace.signatures import SignatureInvalid
from millrace.webhooks.accept import IngressOutcome, IngressResult, accept
from millrace.webhooks.endpoint import Ingress, WebhookEndpoint
from millrace.webhooks.request import correlation_header, read_request

CORRELATION_ID = "X-Correlation-Id"
SHED, REFUSED, FAILED = "shed", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: str = ""

    def as_event(self) -> dict[str, Any]:
        return {"statusCode": self.status, "headers": self.headers, "body": self.body, "isBase64Encoded": False}


@dataclass(frozen=True, slots=True)
class Served:
    """An answer, and what a log and a metric may say about it: names and counts, nothing that a sender wrote."""

    response: Response
    outcome: str  #: an IngressOutcome, or shed (no room), refused (the sender's fault), failed (ours)
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
        request = read_request(event)
        tenant, endpoint = ingress.endpoint_at(request.path)
        result = accept(ingress, endpoint, tenant, endpoint.signed(request), correlation_id)
        return _accepted(endpoint, result, correlation_id)
    except Exception as error:  # noqa: BLE001 (the last line: a sender must get a 5xx, not a broken connection)
        return _refused(endpoint, error, correlation_id)


def _accepted(endpoint: WebhookEndpoint, result: IngressResult, correlation_id: str) -> Served:
    return Served(
        _answer(endpoint, result, correlation_id),
        result.result.value,
        correlation_id,
        webhook=endpoint.name,
        queue=endpoint.webhook.queue or "",
        message_id=result.receipt.message_id if result.receipt else "",
        secret=result.secret,
    )


def _refused(endpoint: WebhookEndpoint | None, error: Exception, correlation_id: str) -> Served:
    response = _refusal(endpoint, error, correlation_id)
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


def _answer(endpoint: WebhookEndpoint, result: IngressResult, correlation_id: str) -> Response:
    """The answer to a call that was not refused."""
    if result.answer is not None:
        given = result.answer
        return Response(given.status, {**given.headers, CORRELATION_ID: correlation_id}, given.body.decode("utf-8"))
    if result.receipt is None:
        return _json(200, {"result": result.value}, correlation_id)
    receipt = result.receipt
    headers = {"Location": f"/v1/queues/{endpoint.webhook.queue}/messages/{receipt.message_id}"}
    status = 200 if result.result is IngressOutcome.DUPLICATE and receipt.status.ended else endpoint.success_status
    return _json(status, _document(receipt), correlation_id, headers)


def _document(receipt: Receipt) -> dict[str, Any]:
    """The receipt; of a message that has ended also how, and what it gave where that was kept."""
    document: dict[str, Any] = {
        "queued": not receipt.status.ended,
        "message_id": receipt.message_id,
        "idempotency_key": receipt.idempotency_key,
    }
    if receipt.duplicate:
        document["duplicate"] = True
    if receipt.status.ended:
        document["status"] = receipt.status.value
    if receipt.result:
        try:
            document["result"] = json.loads(receipt.result)
        except (ValueError, RecursionError):
            document["result_base64"] = b64encode(receipt.result).decode("ascii")
    return document


def _refusal(endpoint: WebhookEndpoint | None, error: Exception, correlation_id: str) -> Response:
    """The answer to a refused call. Overload speaks the provider's own dialect."""
    described = problem(error, correlation_id)
    status, document, headers = described.status, described.document, described.headers
    if isinstance(error, QueueFull) and endpoint is not None:
        status = endpoint.overload_status
        document = {**document, "status": status}
    return Response(status, headers, json.dumps(document))


def _json(status: int, document: dict[str, Any], correlation_id: str, more: dict[str, str] | None = None) -> Response:
    headers = {CORRELATION_ID: correlation_id, **(more or {})}
    if status == 204:
        return Response(status, headers)
    return Response(status, {"Content-Type": "application/json", **headers}, json.dumps(document))
