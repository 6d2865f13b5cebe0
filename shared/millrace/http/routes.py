"""Routes: one table says what each takes, gives and needs; requests are checked and documented from it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from millrace.http.access import TENANT_PARAMETER, Principal
from millrace.http.errors import MethodNotAllowed
from millrace.http.fields import Kind, Record, Schema, Text
from millrace.http.request import ApiRequest, correlation_of
from millrace.http.response import HttpResponse, refusal
from millrace.model.errors import InvalidField, MillraceError, NotFound
from millrace.model.tokens import Scope

S = TypeVar("S")
TENANT_NAME = Text(48, 1, r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", meaning="The tenant, for tokens that reach several.")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteReply:
    """One answer that a route may give."""

    meaning: str
    schema: Schema | None = None
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)  #: name → what it says


@dataclass(frozen=True, slots=True)
class RouteCall:
    """A checked request: what a route's handler works with."""

    request: ApiRequest
    principal: Principal
    tenant: str
    path: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, Any]
    body: Mapping[str, Any]

    @property
    def correlation_id(self) -> str:
        return self.request.correlation_id


@dataclass(frozen=True, slots=True)
class Route(Generic[S]):
    """One operation of an API."""

    method: str
    path: str  #: `/v1/queues/{queue}/…`
    name: str  #: the operation's id in the OpenAPI document
    summary: str
    handle: Callable[[S, RouteCall], HttpResponse]
    replies: Mapping[int, RouteReply]
    scope: Scope | None  #: None: open to everybody
    body: Record | None = None
    takes_bytes: bool = False  #: the body is not JSON but any bytes
    query: Mapping[str, Kind] = field(default_factory=dict)
    headers: Mapping[str, Kind] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()  #: problem codes beyond those that every route may answer with

    def match(self, path: str) -> dict[str, str] | None:
        found = _pattern(self.path).fullmatch(path)
        return None if found is None else {name: _unquoted(name, text) for name, text in found.groupdict().items()}


class Api(Generic[S]):
    """Routes at work: an event in, an answer out, whatever happens in between."""

    def __init__(self, service: S, routes: Sequence[Route[S]]) -> None:
        self.service = service
        self.routes = tuple(routes)

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answer an API Gateway event. Nothing raised in a handler gets past this; what is not ours shows nothing."""
        try:
            request = ApiRequest.from_event(event)
            route, path = self.find(request)
        except MillraceError as error:
            return refused(error, correlation_of(event))
        except Exception as error:
            log.exception("event cannot be read", extra={"action": "request_failed"})
            return refused(error, correlation_of(event))
        return self.serve(route, path, request)

    def serve(self, route: Route[S], path: Mapping[str, str], request: ApiRequest) -> dict[str, Any]:
        """Answer a request whose route is found already, as `handle` does."""
        try:
            answer = self._answer(route, path, request)
        except MillraceError as error:
            return refused(error, request.correlation_id)
        except Exception as error:
            extra = {"action": "request_failed", "correlation_id": request.correlation_id}
            log.exception("request failed", extra=extra)
            return refused(error, request.correlation_id)
        return answer.to_event(request.correlation_id)

    def _answer(self, route: Route[S], path: Mapping[str, str], request: ApiRequest) -> HttpResponse:
        if route.scope is None:
            return route.handle(self.service, RouteCall(request, _NOBODY, "", path, {}, {}, {}))
        principal = Principal.of(request)
        principal.require(route.scope)
        query = dict(request.query)
        named = query.pop(TENANT_PARAMETER, None)
        tenant = principal.tenant(None if named is None else TENANT_NAME.read(TENANT_PARAMETER, named))
        return route.handle(self.service, checked(route, request, principal, tenant, path, query))

    def find(self, request: ApiRequest) -> tuple[Route[S], dict[str, str]]:
        """Raises NotFound, or MethodNotAllowed where the path is right."""
        matches = [(route, path) for route in self.routes if (path := route.match(request.path)) is not None]
        for route, path in matches:
            if route.method == request.method:
                return route, path
        if matches:
            raise MethodNotAllowed(request.method, tuple(sorted({route.method for route, _ in matches})))
        raise NotFound("path", request.path[:80])


def refused(error: BaseException, correlation_id: str) -> dict[str, Any]:
    return refusal(error, correlation_id).to_event(correlation_id)


def checked(
    route: Route[Any],
    request: ApiRequest,
    principal: Principal,
    tenant: str,
    path: Mapping[str, str],
    query: Mapping[str, str],
) -> RouteCall:
    """Read every part of a request by its declaration. Raises InvalidField."""
    for name in query:
        if name not in route.query:
            raise InvalidField(name[:80], "is unknown here", ", ".join((*route.query, TENANT_PARAMETER)))
    given = {name: request.headers[name.lower()] for name in route.headers if name.lower() in request.headers}
    return RouteCall(
        request,
        principal,
        tenant,
        path,
        {name: route.query[name].read(name, text) for name, text in query.items()},
        {name: route.headers[name].read(name, text) for name, text in given.items()},
        route.body.read("", request.document()) if route.body else {},
    )


_NOBODY = Principal("", "", frozenset(), ())
_patterns: dict[str, re.Pattern[str]] = {}


def _pattern(path: str) -> re.Pattern[str]:
    if path not in _patterns:
        _patterns[path] = re.compile(
            re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))
        )
    return _patterns[path]


def _unquoted(name: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidField(name, "is not UTF-8", "percent-encoded UTF-8") from None
