"""The OpenAPI document of a whole deployment, and the route that serves it: `/v1` and `/admin` together."""

from __future__ import annotations

from functools import cache
from typing import Any

from millrace.http.openapi import OpenApiDocument, openapi
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.pull.api import ROUTES as PULL_ROUTES

VERSION = "1"
DESCRIPTION = (
    "Queues with fenced claims. Producers and consumers use `/v1`: enqueue, dequeue, and finish under a claim. "
    "Operators use `/admin`: inspect, pause, replay, purge, and the audit log. "
    "A method that a path does not have is answered 405 (`method_not_allowed`), with those that it has in `Allow`."
)
TAGS = {
    "queues": "The queues of this deployment, as producers and consumers need to know them.",
    "messages": "Enqueue messages, and follow them by their ids.",
    "claims": "Take messages from a queue, and finish, retry, release or extend what was taken.",
    "operations": "For operators: queues in numbers, their messages and claims, pause and resume, search.",
    "dead-letters": "For operators: messages that failed for good; inspect, replay and purge them.",
    "jobs": "For operators: replay or purge many messages in the background.",
    "audit": "For operators: who changed what, when, and with which outcome.",
    "document": "This document.",
}


def serve_document(_service: object, _request: ApiRequest) -> HttpResponse:
    """The OpenAPI document."""
    return HttpResponse(200, document(), headers={"Cache-Control": "public, max-age=300"})


#: Every route of `/v1`.
V1_ROUTES: tuple[Route[Any], ...] = (
    *PULL_ROUTES,
    Route("GET", "/v1/openapi.json", "openapi", "document", "Get this document.", serve_document,
          {200: RouteReply("An OpenAPI 3.1 document.", {"type": "object"})}, ()),
)  # fmt: skip


@cache
def document() -> OpenApiDocument:
    """The document as it is served and checked in."""
    # Only who asks for the document pays for the admin API's imports.
    from millrace.admin.api import ROUTES as ADMIN_ROUTES

    return openapi("Millrace", DESCRIPTION, VERSION, TAGS, (*V1_ROUTES, *ADMIN_ROUTES))
