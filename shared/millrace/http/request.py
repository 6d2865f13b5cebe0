"""An HTTP request, read from an API Gateway event of payload format 2.0."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from millrace.engine.drafts import correlation_id
from millrace.http.fields import parse_json
from millrace.model.clock import Entropy, system_entropy
from millrace.model.errors import InvalidField, InvalidRequest

CORRELATION_HEADER = "x-correlation-id"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What a handler needs of a request, whatever carried it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  #: names in lower case
    body: bytes
    correlation_id: str  #: the caller's where it is fit to be sent on, else a new one
    principal: Mapping[str, Any] = field(default_factory=dict)  #: what the authoriser said of the token
    source_ip: str = ""

    @classmethod
    def from_event(cls, event: Mapping[str, Any], entropy: Entropy = system_entropy) -> ApiRequest:
        """Read an event. Raises InvalidRequest for a body or query that cannot be read."""
        context = event.get("requestContext") or {}
        http = context.get("http") or {}
        return cls(
            method=str(http.get("method", "GET")).upper(),
            path=_path(event, context),
            query=_query(str(event.get("rawQueryString") or "")),
            headers=headers_of(event),
            body=_body(event),
            correlation_id=correlation_of(event, entropy),
            principal=(context.get("authorizer") or {}).get("lambda") or {},
            source_ip=str(http.get("sourceIp", "")),
        )

    def document(self) -> Any:
        """The body as JSON; an empty one counts as an empty object."""
        media_type = self.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise InvalidField("Content-Type", f"{media_type[:40]!r} is not JSON", "application/json")
        return parse_json(self.body) if self.body.strip() else {}


def headers_of(event: Mapping[str, Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}


def correlation_of(event: Mapping[str, Any], entropy: Entropy = system_entropy) -> str:
    """Also for an event that cannot be read otherwise: a refusal has a correlation id too."""
    return correlation_id(headers_of(event).get(CORRELATION_HEADER), entropy)


def _path(event: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    path, stage = str(event.get("rawPath") or "/"), str(context.get("stage") or "$default")
    if stage != "$default" and path.startswith(f"/{stage}/"):
        path = path[len(stage) + 1 :]
    return path


def _query(raw: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as exc:
        raise InvalidRequest("The query string cannot be read.") from exc
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidRequest("The query string names a parameter twice.")
    return query


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(body).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidRequest("The body's base64 cannot be read.") from exc
