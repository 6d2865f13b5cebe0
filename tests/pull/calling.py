"""The pull API in process, ready to be called: events in, answers out."""

from __future__ import annotations

from typing import Any

from millrace.definitions import Definitions
from millrace.http.routes import Api
from millrace.model.tokens import Scope
from millrace.pull.service import PullService
from tests.http.calling import ApiCaller

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
            "Files": defined("Files", max_body_bytes=104_857_600),
        },
        "webhooks": {},
        "schedules": {},
        "tenants": {},
    }
)


class Caller(ApiCaller):
    """Calls the pull API as a token's holder."""

    def __init__(self, api: Api[PullService], tenant: str, scopes: str = EVERY_SCOPE) -> None:
        principal = {"token_id": "t", "name": "tester", "scopes": scopes}
        super().__init__(lambda event, _context: api.handle(event), tenant, principal)
        self.api = api

    def enqueue(self, body: Any = "work", queue: str = "Jobs", **options: Any) -> Any:
        got = self("POST", f"/v1/queues/{queue}/messages", {"body": body, **options})
        assert got.status in (200, 202), got
        return got.json

    def dequeue(self, queue: str = "Jobs", **options: Any) -> list[Any]:
        got = self("POST", f"/v1/queues/{queue}/dequeue", options)
        assert got.status == 200, got
        return list(got.json["messages"])
