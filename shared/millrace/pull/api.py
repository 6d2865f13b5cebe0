"""The pull API, put together: every route of `/v1`, and its OpenAPI document."""

from __future__ import annotations

from functools import cache

from millrace.admin.audited import audited
from millrace.http.openapi import OpenApiDocument, openapi
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.model.tokens import Scope
from millrace.pull import dead_letters, dequeue, enqueue, finish, queues
from millrace.pull.service import Service

VERSION = "1"


def serve_document(_service: Service, _call: RouteCall) -> HttpResponse:
    """The OpenAPI document of this API."""
    return HttpResponse(200, document(), headers={"Cache-Control": "public, max-age=300"})


_ROUTES: tuple[Route[Service], ...] = (
    *queues.ROUTES,
    *enqueue.ROUTES,
    *dequeue.ROUTES,
    *finish.ROUTES,
    *dead_letters.ROUTES,
    Route(
        "GET",
        "/v1/openapi.json",
        "openapi",
        "This document.",
        serve_document,
        {200: RouteReply("OpenAPI 3.1.", {"type": "object"})},
        None,
    ),
)
#: What an operator changes here is noted as it is under /admin.
ROUTES = tuple(audited(route) if route.scope is Scope.OPERATE else route for route in _ROUTES)


@cache
def document() -> OpenApiDocument:
    """The OpenAPI document of the whole deployment, as it is served and checked in: the admin API's routes too."""
    # Only who asks for the document pays for the admin API's imports.
    from millrace.admin.routes import ROUTES as ADMIN_ROUTES

    return openapi(
        "Millrace",
        "Queues for producers and for workers that live elsewhere: enqueue, dequeue, finish under a fenced claim. "
        "Under /admin, for operators: look, replay, purge, pause, and who did what.",
        VERSION,
        (*ROUTES, *ADMIN_ROUTES),
    )
