"""What the tests of the ingress share: the webhooks, a provider that signs, and events as API Gateway shapes them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from functions.ingress import handler as function
from millrace.definitions import Definitions
from millrace.engine.queue import Queue, Runtime
from millrace.signatures import PRESETS, Headers, PublishedKeys, Scheme, SecretSource, WebhookRequest
from millrace.signatures.signing import deliver
from millrace.webhooks import Ingress
from tests.signatures.cases import secret_of, signer_of
from tests.signatures.issuers import Makers, published_delivery

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ACME_SECRET = "whsec_dGhlIHRlbmFudCdzIG93biBzZWNyZXQh"
ENVIRONMENT = {
    "HOOK_SECRET": SECRET,
    "HOOK_SECRET_OLD": OLD_SECRET,
    "ACME_SECRET": ACME_SECRET,
    "META_TOKEN": "mill-race-token",
}
#: Content types that an HTTP API hands over as text; every other body comes in base64.
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")
DOMAIN = "hooks.example.com"


def variable(provider: str) -> str:
    return f"HOOK_{provider.upper()}"


_WRITTEN = Path(__file__).with_name("endpoints.millrace").read_text("utf-8")
OTHERS = [name for name in PRESETS if not re.search(rf"provider: {name}\b", _WRITTEN)]
ENVIRONMENT |= {variable(name): secret_of(PRESETS[name]).value for name in OTHERS}


@cache
def endpoints() -> dict[str, Any]:
    from millrace.definitions.language.compiler import compile_files

    source = Path(__file__).with_name("endpoints.millrace")
    compiled = compile_files([(source.name, source.read_bytes()), ("others.millrace", _others().encode())])
    assert compiled.definitions is not None, compiled.findings
    return compiled.definitions


def _others() -> str:
    """A webhook for every provider that the file has none for, under the provider's name."""
    webhooks = [
        f'webhook {name} {{ queue: Events provider: {name} secret_env: "{variable(name)}" }}' for name in OTHERS
    ]
    return f"app Others {{ {' '.join(webhooks)} }}"


def open_gate(runtime: Runtime, tenant: str, **more: Any) -> Ingress:
    secrets = SecretSource(runtime.clock, environ=ENVIRONMENT)
    more.setdefault("keys", PublishedKeys(Makers(), runtime.clock))
    return Ingress(Definitions(endpoints()), runtime, secrets, default_tenant=tenant, **more)


def scheme_of(endpoint: str) -> Scheme:
    from millrace.signatures import scheme_from

    settings = Definitions(endpoints()).webhook(endpoint).signature_settings
    return PRESETS["github"] if settings is None else scheme_from(settings)


def signed(
    endpoint: str,
    body: bytes,
    now: int,
    *,
    headers: Mapping[str, str] | None = None,
    secret: str = SECRET,
    delivery_id: str = "d-1",
    path: str | None = None,
) -> WebhookRequest:
    """A delivery to a webhook, as its provider would send it."""
    url = f"https://{DOMAIN}{path or f'/hook/{endpoint}'}"
    scheme = scheme_of(endpoint)
    if scheme.published:
        return published_delivery(scheme, url, body, now, headers, delivery_id)
    signer = signer_of(scheme, secret)
    return deliver(scheme, signer, url, body, now, headers=headers, delivery_id=delivery_id)


def v2(request: WebhookRequest, *, source_ip: str = "203.0.113.7", cookies: list[str] | None = None) -> dict[str, Any]:
    """The event of an HTTP API, payload 2.0: lower-case names, repeated values joined by a comma."""
    headers = {name: ",".join(request.headers.all(name)) for name in request.headers}
    text, encoded = _body(request)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": f"{request.method} /hook/{{name}}",
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": {"host": DOMAIN, "x-forwarded-for": source_ip, "x-forwarded-proto": "https", **headers},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": DOMAIN,
            "domainPrefix": "hooks",
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": f"{request.method} /hook/{{name}}",
            "stage": "$default",
            "time": "02/Mar/2026:09:14:07 +0000",
            "timeEpoch": 1772442847250,
        },
        "pathParameters": {"name": request.path.rpartition("/")[2]},
        "isBase64Encoded": encoded,
    }
    if cookies:
        event["cookies"] = cookies
    if text:
        event["body"] = text
    return event


def v1(request: WebhookRequest, *, stage: str = "prod") -> dict[str, Any]:
    """The event of a REST API: original names, every value of a repeated header."""
    text, encoded = _body(request)
    several = {name.title(): list(request.headers.all(name)) for name in request.headers}
    return {
        "resource": "/hook/{name}",
        "path": request.path,
        "httpMethod": request.method,
        "headers": {name: values[-1] for name, values in several.items()},
        "multiValueHeaders": several,
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": {"name": request.path.rpartition("/")[2]},
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": DOMAIN,
            "httpMethod": request.method,
            "identity": {"sourceIp": "203.0.113.7", "userAgent": "probe"},
            "path": f"/{stage}{request.path}",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourcePath": "/hook/{name}",
            "stage": stage,
        },
        "body": text or None,
        "isBase64Encoded": encoded,
    }


def _body(request: WebhookRequest) -> tuple[str, bool]:
    content_type = ",".join(request.headers.all("content-type"))
    if content_type.startswith(TEXT_TYPES):
        try:
            return request.body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode("ascii"), True


def with_headers(request: WebhookRequest, headers: Mapping[str, str]) -> WebhookRequest:
    kept = [(name, value) for name in request.headers for value in request.headers.all(name)]
    merged = Headers([*((n, v) for n, v in kept if n not in headers), *headers.items()])
    return WebhookRequest(request.method, request.url, request.path, request.query, merged, request.body)


class Answer:
    """What the handler returned, as a sender reads it."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.status: int = event["statusCode"]
        self.headers: dict[str, str] = event["headers"]
        self.text: str = event["body"]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Gate:
    """The real handler on one store, with time in the test's hand."""

    def __init__(self, ingress: Ingress, monkeypatch: Any) -> None:
        self.ingress = ingress
        self.now = ingress.runtime.clock
        monkeypatch.setattr(function, "ingress", lambda: self.ingress)

    def call(self, event: Any) -> Answer:
        return Answer(function.handler(event, None))

    def send(self, endpoint: str, body: bytes, **more: Any) -> Answer:
        """Post a signed delivery."""
        return self.call(v2(signed(endpoint, body, self.now(), **more)))

    def queue(self, name: str, tenant: str | None = None) -> Queue:
        spec = self.ingress.definitions.queue(name).spec
        return self.ingress.runtime.queue(tenant or self.ingress.default_tenant, spec)
