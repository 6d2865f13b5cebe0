"""An HTTP request: read from an API Gateway event of payload format 2.0, by what its route declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from millrace.engine.drafts import correlation_id
from millrace.http.event_body import body_of
from millrace.http.fields import Text
from millrace.http.json_body import parse_json
from millrace.http.problems import Forbidden, Unauthorised
from millrace.model.clock import Entropy, system_entropy
from millrace.model.errors import InvalidField, InvalidRequest
from millrace.model.tokens import ANY_TENANT, Scope

GatewayEvent = Mapping[str, Any]
CORRELATION_HEADER = "x-correlation-id"
#: Names the tenant for tokens that reach several.
TENANT_PARAMETER = "tenant_id"
TENANT_NAME = Text(48, 1, r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", meaning="The tenant, for tokens that reach several.")


@dataclass(frozen=True, slots=True)
class Principal:
    """A token's holder, as the authoriser let it through."""

    token_id: str = ""
    name: str = ""
    scopes: frozenset[str] = frozenset()
    tenants: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()  #: none named: every one

    @classmethod
    def of(cls, event: GatewayEvent) -> Principal:
        """Raises Unauthorised where no authoriser vouches for the request: a function without one stays shut."""
        context = ((event.get("requestContext") or {}).get("authorizer") or {}).get("lambda") or {}
        token_id = str(context.get("token_id") or "")
        if not token_id:
            raise Unauthorised
        return cls(
            token_id,
            str(context.get("name") or token_id),
            frozenset(str(context.get("scopes") or "").split()),
            tuple(str(context.get("tenants") or "").split()),
            tuple(str(context.get("queues") or "").split()),
        )

    def require(self, scopes: tuple[Scope, ...]) -> None:
        """Raises Forbidden unless the token has one of these scopes."""
        if not self.scopes.intersection(scopes):
            raise Forbidden(f"scope {' or '.join(scopes)}")

    def reaches(self, queue: str) -> bool:
        return not self.queues or queue in self.queues

    def require_queue(self, queue: str | None) -> None:
        """Raises Forbidden where the token is limited to other queues; None is what belongs to no single one."""
        if self.queues and queue not in self.queues:
            raise Forbidden("another queue" if queue is not None else "every queue")

    def tenant(self, wanted: str | None, default: str) -> str:
        """The tenant that a request is about: the one it names, else the token's only one, else the deployment's."""
        if wanted is None:
            wanted = self.tenants[0] if len(self.tenants) == 1 and self.tenants[0] != ANY_TENANT else default
        if wanted not in self.tenants and ANY_TENANT not in self.tenants:
            raise Forbidden("another tenant")
        return wanted


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A checked request: what a route's handler works with."""

    correlation_id: str  #: the caller's where it is fit to be sent on, else a new one
    principal: Principal
    tenant: str
    path: Mapping[str, str]  #: the parameters of the path
    query: Mapping[str, Any]
    headers: Mapping[str, Any]  #: those that the route declares
    body: Mapping[str, Any]  #: the members of a JSON body
    content: bytes  #: the body as it came
    content_type: str
    source_ip: str

    @property
    def page(self) -> dict[str, Any]:
        """What was asked for of a list: `limit` and `cursor`, where given."""
        return {name: self.query[name] for name in ("limit", "cursor") if name in self.query}


def headers_of(event: GatewayEvent) -> dict[str, str]:
    """By their names in lower case."""
    return {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}


def correlation_of(event: GatewayEvent, entropy: Entropy = system_entropy) -> str:
    """Also for an event that cannot be read otherwise: a refusal has a correlation id too."""
    return correlation_id(headers_of(event).get(CORRELATION_HEADER), entropy)


def method_of(event: GatewayEvent) -> str:
    return str(_http(event).get("method", "GET")).upper()


def path_of(event: GatewayEvent) -> str:
    """The path without the name of the API's stage."""
    path = str(event.get("rawPath") or "/")
    stage = str((event.get("requestContext") or {}).get("stage") or "$default")
    return path[len(stage) + 1 :] if stage != "$default" and path.startswith(f"/{stage}/") else path


def source_ip_of(event: GatewayEvent) -> str:
    return str(_http(event).get("sourceIp", ""))


def query_of(event: GatewayEvent) -> dict[str, str]:
    """Raises InvalidRequest for a query that cannot be read, or names a parameter twice."""
    try:
        raw = str(event.get("rawQueryString") or "")
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as exc:
        raise InvalidRequest("The query string cannot be read.") from exc
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidRequest("The query string names a parameter twice.")
    return query


def content_of(event: GatewayEvent) -> bytes:
    """The body's bytes. Raises RequestTooLarge, InvalidRequest."""
    return body_of(event.get("body"), encoded=bool(event.get("isBase64Encoded")))


def document_of(content: bytes, content_type: str) -> Any:
    """A body as JSON; an empty one counts as an empty object."""
    media_type = (content_type or "application/json").split(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise InvalidField("Content-Type", f"{media_type[:40]!r} is not JSON", "application/json")
    return parse_json(content) if content.strip() else {}


def _http(event: GatewayEvent) -> Mapping[str, Any]:
    return (event.get("requestContext") or {}).get("http") or {}
