"""A webhook's request as API Gateway hands it to a function: payload 2.0 (HTTP API, function URL) and 1.0 (REST)."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from millrace.model.errors import BodyTooLarge, InvalidRequest
from millrace.model.queue_spec import MAX_BODY_BYTES
from millrace.signatures import Headers, WebhookRequest

CORRELATION_HEADER = "x-correlation-id"


def read_request(event: Mapping[str, Any]) -> WebhookRequest:
    """The request in an event, with the exact bytes of its body.

    Raises InvalidRequest for an event that is no HTTP request, BodyTooLarge for what is above every queue's limit.
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
    """REST events carry every value of a repeated header; their query comes decoded and is encoded again."""
    query = event.get("multiValueQueryStringParameters") or event.get("queryStringParameters") or {}
    return _request(
        event,
        context,
        method=_text(event["httpMethod"]),
        path=_text(context.get("path") or event["path"]),
        query=urlencode(list(_pairs(query)), errors="surrogatepass"),
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
) -> WebhookRequest:
    """The URL is the address called, as far as API Gateway tells it."""
    url = f"https://{_text(context.get('domainName') or '')}{path}{'?' if query else ''}{query}"
    body = _body(_text(event.get("body") or ""), encoded=event.get("isBase64Encoded") is True)
    return WebhookRequest(method.upper(), url, path, query, Headers(_pairs(headers)), body, source_ip)


def _body(text: str, *, encoded: bool) -> bytes:
    """The exact bytes received. What must be over the limit is refused before any of it is decoded."""
    smallest = len(text) // 4 * 3 - 2 if encoded else len(text)
    if smallest > MAX_BODY_BYTES:
        raise BodyTooLarge(smallest, MAX_BODY_BYTES)
    if not encoded:
        # Half a surrogate pair is nothing that a provider signs; it must not be a crash either.
        return text.encode("utf-8", "surrogatepass")
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("The body is not the base64 that it is said to be.") from None


def _pairs(given: Any) -> Iterator[tuple[str, str]]:
    for name, values in (given or {}).items():
        for value in values if isinstance(values, list) else [values]:
            yield _text(name), _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value
