"""Routes: one table says what each takes, gives and needs; requests are checked and documented from it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from millrace.http.fields import Kind, Record, Schema
from millrace.http.problems import MethodNotAllowed
from millrace.http.request import (
    TENANT_NAME,
    TENANT_PARAMETER,
    ApiRequest,
    GatewayEvent,
    Principal,
    content_of,
    correlation_of,
    document_of,
    headers_of,
    method_of,
    path_of,
    query_of,
    source_ip_of,
)
from millrace.http.response import HttpResponse, refusal
from millrace.model.errors import InvalidField, MillraceError, NotFound
from millrace.model.queue_spec import DEFAULT_TENANT
from millrace.model.tokens import Scope

S = TypeVar("S")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteReply:
    """One answer that a route may give."""

    meaning: str
    schema: Schema | None = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)  #: name → what it says


@dataclass(frozen=True, slots=True)
class Route(Generic[S]):
    """One operation of an API."""

    method: str
    path: str  #: `/v1/queues/{queue}/…`
    name: str  #: the operation's id in the OpenAPI document, and the action in the audit log
    tag: str  #: the group of operations that it belongs to
    summary: str
    handle: Callable[[S, ApiRequest], HttpResponse]
    replies: Mapping[int, RouteReply]
    scopes: tuple[Scope, ...]  #: one of them is needed; none: open to everybody
    body: Record | None = None
    filters_queues: bool = False  #: it names no queue, and shows only those that the token reaches
    takes_bytes: bool = False  #: the body is not JSON but any bytes
    query: Mapping[str, Kind] = field(default_factory=dict)
    headers: Mapping[str, Kind] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()  #: problem codes beyond those that every route may answer with


class Api(Generic[S]):
    """Routes at work: an event in, an answer out, whatever happens in between."""

    def __init__(self, service: S, routes: Sequence[Route[S]], default_tenant: str = DEFAULT_TENANT) -> None:
        self.service = service
        self.routes = tuple(routes)
        self.default_tenant = default_tenant

    def handle(self, event: GatewayEvent) -> dict[str, Any]:
        """Answer an API Gateway event. Nothing raised in a handler gets past this; what is not ours shows nothing."""
        correlation_id = correlation_of(event)
        try:
            route, parameters = find(self.routes, method_of(event), path_of(event))
            response = route.handle(
                self.service, checked(route, parameters, event, correlation_id, self.default_tenant)
            )
        except MillraceError as error:
            response = refusal(error, correlation_id)
        except Exception as error:
            log.exception("request failed", extra={"action": "request_failed", "correlation_id": correlation_id})
            response = refusal(error, correlation_id)
        return response.to_event(correlation_id)


def find(routes: Sequence[Route[S]], method: str, path: str) -> tuple[Route[S], dict[str, str]]:
    """The route of a request, and the parameters in its path. A path that names a route outright is not taken for the
    parameter of another. Raises NotFound, or MethodNotAllowed with the methods that the path has.
    """
    matches = [(route, match) for route in routes if (match := _pattern(route.path).fullmatch(path))]
    if not matches:
        raise NotFound("path", path[:80])
    fewest = min(len(match.groups()) for _, match in matches)
    matches = [(route, match) for route, match in matches if len(match.groups()) == fewest]
    for route, match in matches:
        if route.method == method:
            return route, {name: _unquoted(name, text) for name, text in match.groupdict().items()}
    raise MethodNotAllowed(method, tuple(sorted({route.method for route, _ in matches})))


def checked(
    route: Route[Any], parameters: Mapping[str, str], event: GatewayEvent, correlation_id: str, default_tenant: str
) -> ApiRequest:
    """Read every part of a request by its declaration. Raises Unauthorised, Forbidden, InvalidRequest."""
    principal, tenant, query = Principal(), "", dict[str, str]()
    if route.scopes:
        principal, query = Principal.of(event), query_of(event)
        principal.require(route.scopes)
        if not route.filters_queues:
            principal.require_queue(parameters.get("queue"))
        named = query.pop(TENANT_PARAMETER, None)
        tenant = principal.tenant(None if named is None else TENANT_NAME.read(TENANT_PARAMETER, named), default_tenant)
    for name in query:
        if name not in route.query:
            raise InvalidField(name[:80], "is unknown here", ", ".join((*route.query, TENANT_PARAMETER)))
    headers, content = headers_of(event), content_of(event)
    content_type = headers.get("content-type", "")
    given = {name: headers[name.lower()] for name in route.headers if name.lower() in headers}
    return ApiRequest(
        correlation_id,
        principal,
        tenant,
        parameters,
        {name: route.query[name].read(name, text) for name, text in query.items()},
        {name: route.headers[name].read(name, text) for name, text in given.items()},
        route.body.read("", document_of(content, content_type)) if route.body else {},
        content,
        content_type,
        source_ip_of(event),
    )


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)))


def _unquoted(name: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidField(name, "is not UTF-8", "percent-encoded UTF-8") from None
