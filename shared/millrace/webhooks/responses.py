"""Answers to senders, in the form that API Gateway takes from a function."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

from millrace.engine.enqueue import Receipt
from millrace.engine.status import MessageStatus
from millrace.http.problems import problem
from millrace.model.errors import QueueFull
from millrace.webhooks.accept import IngressOutcome, IngressResult
from millrace.webhooks.endpoint import WebhookEndpoint
from millrace.webhooks.errors import MethodNotAllowed

CORRELATION_ID = "X-Correlation-Id"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: str = ""

    def as_event(self) -> dict[str, Any]:
        return {"statusCode": self.status, "headers": self.headers, "body": self.body, "isBase64Encoded": False}


def answer(endpoint: WebhookEndpoint, outcome: IngressResult, correlation_id: str) -> Response:
    """What the sender of a call that was not refused is told."""
    if outcome.answer is not None:
        given = outcome.answer
        return Response(given.status, {**given.headers, CORRELATION_ID: correlation_id}, given.body.decode("utf-8"))
    if outcome.receipt is None:
        return _json(200, {"result": outcome.value}, correlation_id)
    receipt = outcome.receipt
    headers = {"Location": f"/v1/queues/{endpoint.webhook.queue}/messages/{receipt.message_id}"}
    if outcome.result is IngressOutcome.FILTERED:
        document = {**_document(receipt, queued=False), "status": MessageStatus.FILTERED.value}
        return _json(endpoint.success_status, document, correlation_id, headers)
    if receipt.duplicate and receipt.status.ended:
        return _json(200, _ended(receipt), correlation_id, headers)
    return _json(endpoint.success_status, _document(receipt, queued=True), correlation_id, headers)


def refusal(endpoint: WebhookEndpoint | None, error: BaseException, correlation_id: str) -> Response:
    """What the sender of a refused call is told. Overload speaks the provider's own dialect."""
    told = problem(error, correlation_id)
    headers = told.headers
    if isinstance(error, QueueFull) and endpoint is not None:
        told = replace(
            told, status=endpoint.overload_status, document={**told.document, "status": endpoint.overload_status}
        )
    if isinstance(error, MethodNotAllowed):
        headers = {**headers, "Allow": "POST"}
    return Response(told.status, headers, told.body)


def _document(receipt: Receipt, *, queued: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "queued": queued,
        "message_id": receipt.message_id,
        "idempotency_key": receipt.idempotency_key,
    }
    if receipt.duplicate:
        document["duplicate"] = True
    return document


def _ended(receipt: Receipt) -> dict[str, Any]:
    """A repeat of a message that has ended: how, and what it gave where that was kept."""
    document = {**_document(receipt, queued=False), "status": receipt.status.value}
    if receipt.result:
        try:
            document["result"] = json.loads(receipt.result)
        except (ValueError, RecursionError):
            document["result_base64"] = b64encode(receipt.result).decode("ascii")
    return document


def _json(status: int, document: dict[str, Any], correlation_id: str, more: dict[str, str] | None = None) -> Response:
    headers = {CORRELATION_ID: correlation_id, **(more or {})}
    if status == 204:
        return Response(status, headers)
    return Response(status, {"Content-Type": "application/json", **headers}, json.dumps(document))
