"""The OpenAPI 3.1 document of an API, from its table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from millrace.http.access import TENANT_PARAMETER
from millrace.http.fields import Kind, Schema, Text
from millrace.http.problems import CONTENT_TYPE, STATUSES
from millrace.http.routes import TENANT_NAME, Route, RouteReply

OpenApiDocument = dict[str, Any]
#: Problems that every route with a token may answer with.
EVERYWHERE = (
    "invalid_request",
    "invalid_field",
    "unauthorised",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "internal",
    "store_unavailable",
)
#: What API Gateway itself says when the authoriser refuses: all refusals look the same.
GATEWAY_REFUSAL: Schema = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
    "description": "Said by the gateway for every token that does not count.",
}
PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; `detail` is for people.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(STATUSES)},
        "detail": {"type": "string"},
        "correlation_id": {"type": "string"},
        "current_version": {"type": ["integer", "null"]},
        "field": {"type": "string"},
        "allowed": {"type": "string"},
    },
    "required": ["type", "title", "status", "code", "correlation_id"],
}


def openapi(title: str, description: str, version: str, routes: Iterable[Route[Any]]) -> OpenApiDocument:
    """The document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "description": description, "version": version, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM, "GatewayRefusal": GATEWAY_REFUSAL},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`mrt_<id>_<secret>`, by `millrace tokens`.",
                }
            },
        },
    }


def written(document: OpenApiDocument) -> str:
    """The document as it is checked in."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _operation(route: Route[Any]) -> OpenApiDocument:
    operation: OpenApiDocument = {"operationId": route.name, "summary": route.summary, "parameters": _parameters(route)}
    if route.scope is None:
        operation["security"] = []
    else:
        operation["security"] = [{"bearer": []}]
        operation["x-millrace-scope"] = route.scope.value
    if route.body is not None:
        content = {"application/json": {"schema": route.body.schema()}}
        operation["requestBody"] = {"required": bool(route.body.required), "content": content}
    if route.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": {}}}}
    operation["responses"] = {
        **{str(status): _reply(reply) for status, reply in sorted(route.replies.items())},
        **_problems((*EVERYWHERE, *route.refuses) if route.scope else ("method_not_allowed", "internal")),
    }
    return operation


def _parameters(route: Route[Any]) -> list[OpenApiDocument]:
    found = [_parameter("path", name, _path_kind(name), required=True) for name in re.findall(r"\{(\w+)\}", route.path)]
    query: Mapping[str, Kind] = {**route.query, TENANT_PARAMETER: TENANT_NAME} if route.scope else route.query
    found += [_parameter("query", name, kind) for name, kind in query.items()]
    found += [_parameter("header", name, kind) for name, kind in route.headers.items()]
    return found


def _path_kind(name: str) -> Kind:
    return Text(64, 1, "[A-Za-z][A-Za-z0-9_]{0,63}") if name == "queue" else Text(128, 1, "[A-Za-z0-9.]{1,128}")


def _parameter(where: str, name: str, kind: Kind, *, required: bool = False) -> OpenApiDocument:
    schema = dict(kind.schema())
    described: OpenApiDocument = {"name": name, "in": where, "required": required, "schema": schema}
    if "description" in schema:
        described["description"] = schema.pop("description")
    return described


def _reply(reply: RouteReply) -> OpenApiDocument:
    described: OpenApiDocument = {"description": reply.meaning}
    described["headers"] = {
        "X-Correlation-Id": {"description": "The caller's, or a new one.", "schema": {"type": "string"}},
        **{name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in reply.headers.items()},
    }
    if reply.schema is not None:
        described["content"] = {reply.media_type: {"schema": reply.schema}}
    return described


def _problems(codes: Iterable[str]) -> OpenApiDocument:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(STATUSES[code][0], []).append(code)
    return {str(status): _problem(status, found) for status, found in sorted(by_status.items())}


def _problem(status: int, codes: list[str]) -> OpenApiDocument:
    content: OpenApiDocument = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if status in (401, 403):
        content["application/json"] = {"schema": {"$ref": "#/components/schemas/GatewayRefusal"}}
    described: OpenApiDocument = {
        "description": "; ".join(f"`{c}`: {STATUSES[c][1]}" for c in codes),
        "content": content,
    }
    if status in (429, 503):
        described["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
    return described
