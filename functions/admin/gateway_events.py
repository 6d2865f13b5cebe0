"""HTTP API events (payload 2.0) as Chalice reads them, and Chalice's answers as they are sent.

Chalice routes on `resourcePath` and knows REST events only. The path is matched here, so that one `ANY /{proxy+}`
route of the gateway serves as well as explicit ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from chalice.app import Chalice, Request, Response

from millrace.http.request import ApiRequest

GatewayEvent = dict[str, Any]


class ThreadsafeChalice(Chalice):
    """A Chalice app whose current request belongs to the thread that serves it, as in the local stack."""

    _request: ContextVar[Request | None] = ContextVar("request", default=None)

    @property
    def current_request(self) -> Request | None:
        return self._request.get()

    @current_request.setter
    def current_request(self, request: Request | None) -> None:
        self._request.set(request)


class Sent(Response):
    """A response that is sent as it is: Chalice would guess which bodies are binary by their type."""

    def __init__(self, event: GatewayEvent) -> None:
        super().__init__(body="", headers={}, status_code=event["statusCode"])
        self.event = event

    def to_dict(self, binary_types: list[str] | None = None) -> GatewayEvent:  # noqa: ARG002 (Chalice's signature)
        return self.event


def rest_event(
    event: Mapping[str, Any], request: ApiRequest, resource: str, parameters: Mapping[str, str]
) -> GatewayEvent:
    """The event that a REST API would have sent for this request; the original rides along."""
    return {
        "httpMethod": request.method,
        "headers": dict(request.headers),
        "multiValueQueryStringParameters": {name: [value] for name, value in request.query.items()} or None,
        "pathParameters": dict(parameters),
        "stageVariables": event.get("stageVariables"),
        "body": event.get("body"),
        "isBase64Encoded": bool(event.get("isBase64Encoded")),
        "requestContext": {
            **(event.get("requestContext") or {}),
            "resourcePath": resource,
            "httpMethod": request.method,
        },
        "millrace": request,
    }


def original_request(request: Request | None) -> ApiRequest:
    """What `rest_event` was made from."""
    if request is None:
        raise RuntimeError("Chalice serves no request here.")
    original: ApiRequest = request.to_original_event()["millrace"]
    return original
