"""The pull API in process, ready to be called: events in, answers out."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.definitions import Definitions
from millrace.http.routes import Api
from millrace.model.tokens import Scope
from millrace.pull.service import PullService

EVERY_SCOPE = " ".join(Scope)


def defined(name: str, **settings: Any) -> dict[str, Any]:
    """A compiled queue, as `millrace compile` writes it."""
    spec: dict[str, Any] = {
        "ordering": "unordered",
        "labels": [],
        "retention": {},
        "delivery": {"jitter": "none", "initial_backoff_ms": 1000, "max_attempts": 3},
        "idempotency": {},
        "lease_seconds": 30.0,
        **settings,
    }
    return {
        "app": "Test",
        "message_type": None,
        "spec": spec,
        "targets": [],
        "filter": None,
        "key": None,
        "idempotency_key": None,
        "dead_letter_queue": None,
    }


DEFINITIONS = Definitions(
    {
        "queues": {
            "Jobs": defined("Jobs"),
            "Ordered": defined("Ordered", ordering="fifo"),
            "Keyed": defined("Keyed", ordering="per_key"),
            "Small": defined("Small", retention={"max_depth": 2}, max_body_bytes=100),
            "Forgetful": defined("Forgetful", idempotency={"cache_result": False}),
            "Wide": defined("Wide", shards=4),
        },
        "webhooks": {},
    }
)


@dataclass(frozen=True)
class Got:
    """An answer read."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Caller:
    """Calls the API as a token's holder."""

    def __init__(self, api: Api[PullService], tenant: str, scopes: str = EVERY_SCOPE) -> None:
        self.api = api
        self.tenant = tenant
        self.principal: dict[str, str] | None = {"token_id": "t", "name": "tester", "scopes": scopes, "tenants": tenant}

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
        result = self.api.handle(event)
        body = result["body"]
        data = base64.b64decode(body) if result["isBase64Encoded"] else body.encode()
        return Got(result["statusCode"], result["headers"], data)

    def enqueue(self, body: Any = "work", queue: str = "Jobs", **options: Any) -> Any:
        got = self("POST", f"/v1/queues/{queue}/messages", {"body": body, **options})
        assert got.status in (200, 202), got
        return got.json

    def dequeue(self, queue: str = "Jobs", **options: Any) -> list[Any]:
        got = self("POST", f"/v1/queues/{queue}/dequeue", options)
        assert got.status == 200, got
        return list(got.json["messages"])
