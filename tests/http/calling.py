"""An HTTP function in process: a request as API Gateway hands it over, the answer read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Got:
    """An answer read."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class ApiCaller:
    """Calls a function as a token's holder; without a principal, as nobody."""

    def __init__(self, handler: Callable[[Any, Any], Any], tenant: str, principal: Mapping[str, str]) -> None:
        self.handler = handler
        self.tenant = tenant
        self.principal: dict[str, str] | None = {**principal, "tenants": tenant}

    def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> Got:
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query,
            "headers": dict(headers or {}),
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"}},
            "isBase64Encoded": content is not None,
        }
        if self.principal is not None:
            event["requestContext"]["authorizer"] = {"lambda": self.principal}
        if content is not None:
            event["body"] = base64.b64encode(content).decode()
        elif document is not None:
            event["headers"].setdefault("content-type", "application/json")
            event["body"] = json.dumps(document)
        result = self.handler(event, None)
        body = result["body"]
        data = base64.b64decode(body) if result["isBase64Encoded"] else body.encode()
        return Got(result["statusCode"], result["headers"], data)

    def ok(self, method: str, path: str, document: Any = None, **more: Any) -> Any:
        got = self(method, path, document, **more)
        assert got.status in (200, 202), got
        return got.json
