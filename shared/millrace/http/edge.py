"""Requests that come through CloudFront, and those that come around it.

The API's own address stays open beside a distribution, so CloudFront adds a secret to what it passes on, and a function
that was given the secret answers nobody without it. Only then is the sender's address read from a header: anybody can
write one.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from millrace.engine.drafts import correlation_id
from millrace.http.problems import Forbidden, problem
from millrace.model.clock import system_entropy

EDGE_HEADER = "x-millrace-edge"


def passed(event: Any, secret: str) -> Any:
    """The event as its sender sent it to CloudFront; None for one that came around. Unchanged without a secret."""
    if not secret:
        return {} if event is None else event  # no event came around: it is no call at all
    if not isinstance(event, Mapping) or not isinstance(event.get("headers"), Mapping):
        return None
    headers = {str(name).lower(): str(value) for name, value in event["headers"].items()}
    given = headers.pop(EDGE_HEADER, "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()):
        return None
    context = event.get("requestContext") or {}
    http = {**(context.get("http") or {}), "sourceIp": _viewer(headers.get("x-forwarded-for", ""))}
    return {**event, "headers": headers, "requestContext": {**context, "http": http}}


def refused() -> dict[str, Any]:
    """The answer to a request that came around. Nothing of it was read: its correlation id is a new one."""
    told = problem(Forbidden("the address of CloudFront, not the API's own"), correlation_id(None, system_entropy))
    return {"statusCode": told.status, "headers": told.headers, "body": told.body, "isBase64Encoded": False}


def _viewer(forwarded: str) -> str:
    """Whom CloudFront saw: it adds the viewer at the end, API Gateway adds CloudFront; the rest anybody wrote."""
    hops = [hop.strip() for hop in forwarded.split(",")]
    return hops[-2] if len(hops) > 1 else ""
