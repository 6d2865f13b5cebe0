"""The OpenAPI 3.1 document of an API, from its table of routes.

Schemas with a title become named components, and so do parameters and answers that several routes share: code
generators make one type for each name. Refusals are shared responses, one for each status.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millrace.http.fields import Kind, Schema, Text
from millrace.http.problems import CONTENT_TYPE, PROBLEM, STATUSES
from millrace.http.request import TENANT_NAME, TENANT_PARAMETER
from millrace.http.routes import Route, RouteReply

OpenApiDocument = dict[str, Any]
#: Problems that every route may answer with, and those with a token.
ALWAYS = ("invalid_request", "invalid_field", "not_found", "internal")
WITH_TOKEN = (*ALWAYS, "unauthorised", "forbidden", "store_unavailable")
#: Names of the shared responses.
REFUSALS = {
    400: "BadRequest",
    401: "Unauthorised",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    413: "BodyTooLarge",
    422: "InvalidMessage",
    429: "TooManyRequests",
    500: "InternalError",
    503: "Unavailable",
}
REFUSAL_HEADERS = {
    429: {"Retry-After": "Seconds to wait before the next try."},
    503: {"Retry-After": "Seconds to wait before the next try."},
}
#: A small object or list, written over several lines.
SHORT = re.compile(r"[{\[]\n[^{}\[\]]{1,120}\n\s*[}\]]")
GATEWAY_REFUSAL: Schema = {
    "type": "object",
    "title": "GatewayRefusal",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
    "description": "What API Gateway answers when the authoriser refuses a token. All refusals look the same.",
}
BEARER = {"type": "http", "scheme": "bearer", "description": "A token `mrt_<id>_<secret>`: `millrace tokens create`."}


def openapi(
    title: str, description: str, version: str, tags: Mapping[str, str], routes: Sequence[Route[Any]]
) -> OpenApiDocument:
    """The document of these routes; `tags` says what each group of them is for."""
    parts = _Components(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, parts)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "description": description, "version": version, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": meaning} for name, meaning in tags.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(parts.schemas.items())),
            "parameters": dict(sorted(parts.parameters.items())),
            "responses": parts.responses,
            "headers": {"CorrelationId": _header("The caller's X-Correlation-Id, or a new one.")},
            "securitySchemes": {"bearer": BEARER},
        },
    }


def written(document: OpenApiDocument) -> str:
    """The document as it is checked in: indented, with short objects and lists on one line."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return SHORT.sub(lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


class _Components:
    """What operations share, collected while they are described."""

    def __init__(self, routes: Sequence[Route[Any]]) -> None:
        self.schemas: dict[str, Schema] = {}
        self.parameters: dict[str, OpenApiDocument] = {}
        self.responses: dict[str, OpenApiDocument] = {}
        uses = Counter(json.dumps(parameter) for route in routes for parameter in _parameters(route))
        self._shared = {parameter for parameter, count in uses.items() if count > 1}
        replies = Counter(_reply_name(reply) for route in routes for reply in route.replies.values())
        self._shared_replies = {name for name, count in replies.items() if count > 1}
        by_status: dict[int, list[str]] = {}
        for code in dict.fromkeys(code for route in routes for code in _codes(route)):
            by_status.setdefault(STATUSES[code][0], []).append(code)
        for status, codes in sorted(by_status.items()):
            self.responses[REFUSALS[status]] = _refusal(status, codes, self)

    def schema(self, schema: Schema) -> Schema:
        """The schema with every titled part moved to the components."""
        found = dict(schema)
        for key in ("items", "additionalProperties"):
            if isinstance(found.get(key), dict):
                found[key] = self.schema(found[key])
        if "anyOf" in found:
            found["anyOf"] = [self.schema(one) for one in found["anyOf"]]
        if "properties" in found:
            found["properties"] = {name: self.schema(member) for name, member in found["properties"].items()}
        title = found.pop("title", None)
        if title is None:
            return found
        if self.schemas.setdefault(title, found) != found:
            raise ValueError(f"Two schemas are called {title}.")
        return {"$ref": f"#/components/schemas/{title}"}

    def parameter(self, parameter: OpenApiDocument) -> OpenApiDocument:
        """A reference to it where another route has the same."""
        name = parameter["name"].replace("-", "")
        if json.dumps(parameter) not in self._shared or self.parameters.setdefault(name, parameter) != parameter:
            return parameter
        return {"$ref": f"#/components/parameters/{name}"}

    def reply(self, reply: RouteReply) -> OpenApiDocument:
        """A reference to it where another route gives the same answer."""
        name, described = _reply_name(reply), _reply(reply, self)
        if name not in self._shared_replies or self.responses.setdefault(name, described) != described:
            return described
        return {"$ref": f"#/components/responses/{name}"}


def _reply_name(reply: RouteReply) -> str:
    """What it says, as a name: `The job.` is `Job`."""
    words = re.findall(r"[A-Za-z]+", re.split(r"[.:,;]", reply.meaning)[0])
    return "".join(word.capitalize() for word in words if word.lower() not in ("a", "an", "the"))


def _operation(route: Route[Any], parts: _Components) -> OpenApiDocument:
    operation: OpenApiDocument = {"operationId": route.name, "tags": [route.tag], "summary": route.summary}
    if route.scopes:
        operation["x-millrace-scopes"] = [scope.value for scope in route.scopes]
    else:
        operation["security"] = []
    if parameters := [parts.parameter(parameter) for parameter in _parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": parts.schema(route.body.schema())}}
        operation["requestBody"] = {"required": bool(route.body.required), "content": content}
    if route.takes_bytes:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    statuses = sorted({STATUSES[code][0] for code in _codes(route)})
    operation["responses"] = {
        **{str(status): parts.reply(reply) for status, reply in sorted(route.replies.items())},
        **{str(status): {"$ref": f"#/components/responses/{REFUSALS[status]}"} for status in statuses},
    }
    return operation


def _codes(route: Route[Any]) -> tuple[str, ...]:
    return (*(WITH_TOKEN if route.scopes else ALWAYS), *route.refuses)


def _parameters(route: Route[Any]) -> list[OpenApiDocument]:
    found = [_parameter("path", name, _path_kind(name)) for name in re.findall(r"\{(\w+)\}", route.path)]
    query: Mapping[str, Kind] = {**route.query, TENANT_PARAMETER: TENANT_NAME} if route.scopes else route.query
    found += [_parameter("query", name, kind) for name, kind in query.items()]
    found += [_parameter("header", name, kind) for name, kind in route.headers.items()]
    return found


def _path_kind(name: str) -> Kind:
    return Text(64, 1, "[A-Za-z][A-Za-z0-9_]{0,63}") if name == "queue" else Text(128, 1, "[A-Za-z0-9.]{1,128}")


def _parameter(where: str, name: str, kind: Kind) -> OpenApiDocument:
    schema = {key: value for key, value in kind.schema().items() if key != "title"}
    described: OpenApiDocument = {"name": name, "in": where, "schema": schema}
    if where == "path":
        described["required"] = True
    if "description" in schema:
        described["description"] = schema.pop("description")
    return described


def _header(meaning: str) -> OpenApiDocument:
    return {"description": meaning, "schema": {"type": "string"}}


def _headers(more: Mapping[str, str]) -> OpenApiDocument:
    own = {name: _header(meaning) for name, meaning in more.items()}
    return {"X-Correlation-Id": {"$ref": "#/components/headers/CorrelationId"}, **own}


def _reply(reply: RouteReply, parts: _Components) -> OpenApiDocument:
    described: OpenApiDocument = {"description": reply.meaning, "headers": _headers(reply.headers)}
    if reply.schema is not None:
        described["content"] = {reply.media_type: {"schema": parts.schema(reply.schema)}}
    return described


def _refusal(status: int, codes: Iterable[str], parts: _Components) -> OpenApiDocument:
    content: OpenApiDocument = {CONTENT_TYPE: {"schema": parts.schema(PROBLEM)}}
    if status in (401, 403):
        content["application/json"] = {"schema": parts.schema(GATEWAY_REFUSAL)}
    described: OpenApiDocument = {"description": "; ".join(f"`{code}`: {STATUSES[code][1]}" for code in codes) + "."}
    if status not in (401, 403):
        described["headers"] = _headers(REFUSAL_HEADERS.get(status, {}))
    return {**described, "content": content}
