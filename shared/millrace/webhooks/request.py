"""An HTTP call as API Gateway hands it to a function: payload 2.0 (HTTP API, function URL) and 1.0 (REST)."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from millrace.model.errors import BodyTooLarge
from millrace.model.queue_spec import TENANT
from millrace.signatures.request import Headers
from millrace.webhooks.errors import MalformedCall, UnknownWebhook

PREFIX = "hook"
CORRELATION_HEADER = "x-correlation-id"


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One call, its body still as the event carries it. The repr leaves out what may hold a secret."""

    method: str
    path: str
    query: str = field(repr=False)  #: raw, without the question mark
    domain: str
    headers: Headers
    source_ip: str
    text: str = field(repr=False)  #: the body, as text or base64
    encoded: bool

    @property
    def url(self) -> str:
        """The address called, as far as API Gateway tells it."""
        return f"https://{self.domain}{self.path}"

    def address(self) -> tuple[str | None, str]:
        """The tenant, where the path names one, and the webhook. Raises UnknownWebhook for any other path."""
        match self.path.strip("/").split("/"):
            case [*_, prefix, name] if prefix == PREFIX:
                return None, name
            case [*_, prefix, tenant, name] if prefix == PREFIX and TENANT.fullmatch(tenant):
                return tenant, name
        raise UnknownWebhook

    def demand_size(self, limit: int) -> None:
        """Refuse a body that must be over the limit, before any of it is decoded."""
        min_ = len(self.text) // 4 * 3 - 2 if self.encoded else len(self.text)
        if min_ > limit:
            raise BodyTooLarge(min_, limit)

    def body(self, limit: int) -> bytes:
        """The exact bytes received. Raises BodyTooLarge, or MalformedCall for base64 that is none."""
        self.demand_size(limit)
        if self.encoded:
            try:
                data = b64decode(self.text, validate=True)
            except (binascii.Error, ValueError):
                raise MalformedCall("The body is not the base64 that it is said to be.") from None
        else:
            # Half a surrogate pair is nothing that a provider signs; it must not be a crash either.
            data = self.text.encode("utf-8", "surrogatepass")
        if len(data) > limit:
            raise BodyTooLarge(len(data), limit)
        return data


def read_call(event: Mapping[str, Any]) -> WebhookCall:
    """The call in an event. Raises MalformedCall for an event that is no HTTP call."""
    try:
        context = event["requestContext"]
        read = _version_2 if "http" in context else _version_1
        return read(event, context)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise MalformedCall("The event is not an HTTP call.") from None


def correlation_header(event: Any) -> str | None:
    """The caller's correlation id, found even in an event that cannot be read otherwise."""
    headers = event.get("headers") if isinstance(event, dict) else None
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if isinstance(name, str) and isinstance(value, str) and name.lower() == CORRELATION_HEADER:
            return value
    return None


def _version_2(event: Mapping[str, Any], context: Mapping[str, Any]) -> WebhookCall:
    http = context["http"]
    return WebhookCall(
        method=_text(http["method"]).upper(),
        path=_text(event["rawPath"]),
        query=_text(event.get("rawQueryString") or ""),
        domain=_text(context.get("domainName") or ""),
        headers=Headers(_pairs(event.get("headers"))),
        source_ip=_text(http.get("sourceIp") or ""),
        text=_text(event.get("body") or ""),
        encoded=event.get("isBase64Encoded") is True,
    )


def _version_1(event: Mapping[str, Any], context: Mapping[str, Any]) -> WebhookCall:
    """REST events carry every value of a repeated header; their query comes decoded and is encoded again."""
    several = event.get("multiValueHeaders")
    query = event.get("multiValueQueryStringParameters") or event.get("queryStringParameters") or {}
    return WebhookCall(
        method=_text(event["httpMethod"]).upper(),
        path=_text(context.get("path") or event["path"]),
        query=urlencode(list(_pairs(query)), errors="surrogatepass"),
        domain=_text(context.get("domainName") or ""),
        headers=Headers(_pairs(several or event.get("headers"))),
        source_ip=_text((context.get("identity") or {}).get("sourceIp") or ""),
        text=_text(event.get("body") or ""),
        encoded=event.get("isBase64Encoded") is True,
    )


def _pairs(given: Any) -> Iterator[tuple[str, str]]:
    for name, values in (given or {}).items():
        for value in values if isinstance(values, list) else [values]:
            yield _text(name), _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value
