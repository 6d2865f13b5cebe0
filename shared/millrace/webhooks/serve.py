"""The whole way of a call, with an answer for whatever happens on it, in the form that API Gateway takes.

Both payloads of API Gateway are read: 2.0 (HTTP API, function URL) and 1.0 (REST).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from millrace.engine.drafts import correlation_id as normalised
from millrace.engine.enqueue import Receipt
from millrace.http.event_body import body_of
from millrace.http.problems import problem
from millrace.model.errors import InvalidRequest, MillraceError, QueueFull
from millrace.model.values import dataclass
from millrace.signatures import Headers, SignatureInvalid, WebhookRequest
from millrace.webhooks.accept import IngressOutcome, IngressResult, accept
from millrace.webhooks.endpoint import Ingress, WebhookEndpoint

CORRELATION_ID = "X-Correlation-Id"
CORRELATION_HEADER = CORRELATION_ID.lower()
SHED, REFUSED, FAILED = "shed", "refused", "failed"


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: str = ""

    def as_event(self) -> dict[str, Any]:
        return {"statusCode": self.status, "headers": self.headers, "body": self.body, "isBase64Encoded": False}


@dataclass(frozen=True, slots=True)
class Served:
    """An answer, and what a log and a metric may say about it: names and counts, nothing that a sender wrote."""

    response: WebhookResponse
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
        result = accept(ingress, endpoint, tenant, endpoint.signed(request, tenant), correlation_id)
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


def _answer(endpoint: WebhookEndpoint, result: IngressResult, correlation_id: str) -> WebhookResponse:
    """The answer to a call that was not refused."""
    if result.answer is not None:
        given = result.answer
        return WebhookResponse(
            given.status, {**given.headers, CORRELATION_ID: correlation_id}, given.body.decode("utf-8")
        )
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


def _refusal(endpoint: WebhookEndpoint | None, error: Exception, correlation_id: str) -> WebhookResponse:
    """The answer to a refused call. Overload speaks the provider's own dialect."""
    described = problem(error, correlation_id)
    status, document, headers = described.status, described.document, described.headers
    if isinstance(error, QueueFull) and endpoint is not None:
        status = endpoint.overload_status
        document = {**document, "status": status}
    return WebhookResponse(status, headers, json.dumps(document))


def _json(
    status: int, document: dict[str, Any], correlation_id: str, more: dict[str, str] | None = None
) -> WebhookResponse:
    headers = {CORRELATION_ID: correlation_id, **(more or {})}
    if status == 204:
        return WebhookResponse(status, headers)
    return WebhookResponse(status, {"Content-Type": "application/json", **headers}, json.dumps(document))


def read_request(event: Mapping[str, Any]) -> WebhookRequest:
    """The request in an event, with the exact bytes of its body.

    Raises InvalidRequest for an event that is no HTTP request, RequestTooLarge for what is above every queue's limit.
    """
    try:
        context = event["requestContext"]
        read = _version_2 if "http" in context else _version_1
        return read(event, context)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidRequest("The event is not an HTTP call.") from None


def correlation_header(event: Any) -> str | None:
    """The caller's correlation id, found even in an event that cannot be read otherwise."""
    headers = event.get("headers") if isinstance(event, dict) else None
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if isinstance(name, str) and isinstance(value, str) and name.lower() == CORRELATION_HEADER:
            return value
    return None


def _version_2(event: Mapping[str, Any], context: Mapping[str, Any]) -> WebhookRequest:
    http = context["http"]
    return _request(
        event,
        context,
        method=_text(http["method"]),
        path=_text(event["rawPath"]),
        query=_text(event.get("rawQueryString") or ""),
        headers=event.get("headers"),
        source_ip=_text(http.get("sourceIp") or ""),
    )


def _version_1(event: Mapping[str, Any], context: Mapping[str, Any]) -> WebhookRequest:
    """REST events carry every value of a repeated header; their query comes decoded and is encoded again.

    Whether a space was `%20` or `+` is not told, so where the URL is signed both are tried.
    """
    query = event.get("multiValueQueryStringParameters") or event.get("queryStringParameters") or {}
    pairs = list(_pairs(query))
    return _request(
        event,
        context,
        method=_text(event["httpMethod"]),
        path=_text(context.get("path") or event["path"]),
        query=urlencode(pairs, errors="surrogatepass", quote_via=quote),
        other_query=urlencode(pairs, errors="surrogatepass"),
        headers=event.get("multiValueHeaders") or event.get("headers"),
        source_ip=_text((context.get("identity") or {}).get("sourceIp") or ""),
    )


def _request(
    event: Mapping[str, Any],
    context: Mapping[str, Any],
    *,
    method: str,
    path: str,
    query: str,
    headers: Any,
    source_ip: str,
    other_query: str = "",
) -> WebhookRequest:
    """The URL is the address called, as far as API Gateway tells it."""
    address = f"https://{_text(context.get('domainName') or '')}{path}"
    url = f"{address}{'?' if query else ''}{query}"
    others = (f"{address}?{other_query}",) if other_query not in ("", query) else ()
    body = body_of(event.get("body"), encoded=event.get("isBase64Encoded") is True)
    return WebhookRequest(method.upper(), url, path, query, Headers(_pairs(headers)), body, source_ip, others)


def _pairs(given: Any) -> Iterator[tuple[str, str]]:
    for name, values in (given or {}).items():
        for value in values if isinstance(values, list) else [values]:
            yield _text(name), _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value
