"""The admin function, ready to be called: HTTP API events in, answers out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, reject
from millrace.engine.queue import Queue
from millrace.model.message import DeadLetter, Draft
from tests.pull.calling import defined

DEFINITIONS = Definitions(
    {
        "queues": {
            "Jobs": defined("Jobs"),
            "Ordered": defined("Ordered", ordering="fifo"),
            "Keyed": defined("Keyed", ordering="per_key"),
            "Small": defined("Small", retention={"max_depth": 3}),
            "Brief": defined("Brief", idempotency={"window_seconds": 1}),
            "Wide": defined("Wide", shards=4, rate_per_second=5.0),
        },
        "webhooks": {},
    }
)
BOTH = "operate read"


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
    """Calls the function as a token's holder."""

    def __init__(self, handler: Callable[[Any, Any], Any], tenant: str) -> None:
        self.handler = handler
        self.tenant = tenant
        self.principal: dict[str, str] | None = {
            "token_id": "abcdefghijklmnop",
            "name": "olga",
            "scopes": BOTH,
            "tenants": tenant,
        }

    def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Got:
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": "ANY /admin/{proxy+}",
            "rawPath": path,
            "rawQueryString": query,
            "headers": dict(headers or {}),
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"}},
            "isBase64Encoded": False,
        }
        if self.principal is not None:
            event["requestContext"]["authorizer"] = {"lambda": self.principal}
        if document is not None:
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


def bury(
    queue: Queue, count: int, *, error: str = "boom", step: Callable[[], object] | None = None, **draft: Any
) -> list[DeadLetter]:
    """Messages that failed for good, in the order in which they came."""
    for number in range(count):
        body = draft.get("body", json.dumps({"number": number}).encode())
        enqueue(queue, Draft(**{**draft, "body": body}))
        (held,) = claim(queue, owner="worker-1", limit=1).claims
        reject(queue, held.entry, held.message, RunFailure("ValueError", error))
        if step:
            step()
    return list(list_dead_letters(queue, limit=500, newest_first=False).items)
