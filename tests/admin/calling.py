"""The admin function, ready to be called: HTTP API events in, answers out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, reject
from millrace.engine.queue import Queue
from millrace.model.message import DeadLetter, Draft
from tests.http.calling import ApiCaller
from tests.pull.calling import defined

DEFINITIONS = Definitions(
    {
        "queues": {
            "Jobs": defined("Jobs"),
            "Ordered": defined("Ordered", ordering="fifo"),
            "Keyed": defined("Keyed", ordering="per_key"),
            "Places": defined("Places", ordering="per_key", concurrency_per_key=2),
            "Small": defined("Small", retention={"max_depth": 3}),
            "Brief": defined("Brief", idempotency={"window_seconds": 1}),
            "Wide": defined("Wide", shards=4, rate_per_second=5.0),
        },
        "webhooks": {},
        "schedules": {},
        "tenants": {},
    }
)
BOTH = "operate read"


class Caller(ApiCaller):
    """Calls the admin function as a token's holder."""

    def __init__(self, handler: Callable[[Any, Any], Any], tenant: str) -> None:
        super().__init__(handler, tenant, {"token_id": "abcdefghijklmnop", "name": "olga", "scopes": BOTH})


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
