"""The console as people meet it: gateway, authoriser and admin function on DynamoDB Local, and a browser."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import functions.admin.app as admin
import functions.authoriser.handler as authoriser
import functions.consumer.handler as consumer
from infra.local.gateway import Binding, Gateway
from millrace.admin.service import AdminService
from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack, reject
from millrace.engine.operate import pause
from millrace.engine.queue import Queue, Runtime
from millrace.http.routes import Api
from millrace.model.clock import system_clock
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState
from millrace.model.tokens import Scope, issue
from millrace.openapi import V1_ROUTES
from millrace.pull.service import PullService
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryBlobs
from tests.pull.calling import defined

#: A payload full of markup: it must show as text.
MARKUP = '<img src=x onerror="document.title=1"><script>document.title=2</script><b>bold</b>'


def _queue(name: str, app: str, **settings: Any) -> dict[str, Any]:
    return {**defined(name, **settings), "app": app}


DEFINITIONS = Definitions(
    {
        "queues": {
            "WebhookIngress": {
                **_queue("WebhookIngress", "IncidentManagement", ordering="fifo", retention={"max_depth": 10_000}),
                "dead_letter_queue": "WebhookDLQ",
            },
            "WebhookDLQ": _queue("WebhookDLQ", "IncidentManagement"),
            "StripeEvents": _queue("StripeEvents", "Billing", ordering="per_key", rate_per_second=50.0),
            "GitHubEvents": _queue("GitHubEvents", "Delivery", shards=2),
            "OutboundMail": _queue("OutboundMail", "Notifications", retention={"max_depth": 150}),
            "NightlyReports": _queue("NightlyReports", "Reporting"),
        },
        "webhooks": {},
        "schedules": {
            "Nightly": {
                "app": "Reporting",
                "queue": "NightlyReports",
                "cron": "0 3 * * *",
                "timezone": "Europe/Berlin",
                "catch_up": "latest",
                "tenant": None,
                "message": {},
            }
        },
        "tenants": {},
    }
)


@dataclass(frozen=True)
class Stack:
    """What a browser can be pointed at, and the queues behind it."""

    url: str
    token: str
    reader: str  #: a token that may only look
    tenant: str
    service: AdminService
    tokens: DynamoTokens
    clock: Any

    def queue(self, name: str) -> Queue:
        return self.service.queue(self.tenant, name)


class Shifted:
    """The machine's time, moved: for a past to look at."""

    def __init__(self) -> None:
        self.by = 0

    def __call__(self) -> int:
        return system_clock() + self.by


@contextmanager
def serving(store: Store, tenant: str, patch: Any) -> Iterator[Stack]:
    """The stack on a port of its own; `patch` is pytest's monkeypatch."""
    client, table = store._calls.client, store._names.queue  # type: ignore[attr-defined]
    tokens, clock = DynamoTokens(client, table), Shifted()
    service = AdminService(
        Runtime(store, MemoryBlobs(), clock=clock),
        DEFINITIONS,
        DynamoAdminJobs(client, table),
        DynamoAuditLog(client, table),
        admin._thread_invoke_worker,
    )
    pull = PullService(service.runtime, DEFINITIONS, tokens)
    patch.setattr(admin, "service", lambda: service)
    patch.setattr(consumer, "api", lambda: Api(pull, V1_ROUTES))
    patch.setattr(authoriser, "tokens", lambda: tokens)
    both = [Scope.READ, Scope.OPERATE]
    _, token = issue(tokens, name="olga", scopes=both, tenants=[tenant], clock=system_clock)
    _, reader = issue(tokens, name="reader", scopes=both[:1], tenants=[tenant], clock=system_clock)
    bindings = [
        Binding("GET /console", admin.handler),
        Binding("GET /console/{proxy+}", admin.handler),
        Binding("ANY /admin/{proxy+}", admin.handler, authoriser.handler),
        Binding("ANY /v1/{proxy+}", consumer.handler, authoriser.handler),
    ]
    with Gateway(bindings) as gateway:
        yield Stack(gateway.url, token, reader, tenant, service, tokens, clock)


PAYLOAD = {
    "event": "incident.triggered",
    "incident": {
        "id": 9007199254740993,
        "title": "Checkout latency above 2 s",
        "urgency": "high",
        "service": {"id": "PSVC01", "summary": MARKUP},
        "assignees": ["amara", "jun"],
        "acknowledged": False,
        "closed_at": None,
    },
}
ERRORS = [
    ("TimeoutError", "POST https://incidents.example/v2/incidents: no answer within 10 s"),
    ("HttpStatus", "502 Bad Gateway from incidents.example"),
    ("ValidationError", "severity: expected one of low, high, critical; found null"),
]


def stuck(stack: Stack, name: str = "WebhookIngress", number: int = 0, *, tries: int = 3) -> str:
    """One message that fails until it is a dead letter; its id."""
    queue = stack.queue(name)
    body = json.dumps(PAYLOAD, separators=(",", ":")).encode()
    draft = Draft(
        body,
        source="pagerduty",
        correlation_id=f"inc-{4200 + number}",
        headers={"user-agent": "PagerDuty-Webhook/V3.0"},
    )
    receipt = enqueue(queue, draft)
    kind, text = ERRORS[number % len(ERRORS)]
    for run in range(tries):
        (held,) = claim(queue, owner=f"worker-{1 + (number + run) % 3}", limit=1).claims
        stack.clock.by += 412
        nack(queue, held.entry, held.message, RunFailure(kind, text), lost=held.lost)
        stack.clock.by += 60_000 if run < tries - 1 else 0
    return receipt.message_id


def furnish(stack: Stack) -> str:
    """Queues as on an ordinary bad day; the id of the message to look at."""
    chance = random.Random(7)
    stack.clock.by = -3 * 3_600_000
    for number in range(9):
        stuck(stack, number=number, tries=3)
        stack.clock.by += 300_000
    found = stuck(stack, number=9)
    stripe = stack.queue("StripeEvents")
    for number in range(4):
        enqueue(stripe, Draft(b'{"type":"invoice.paid"}', key=f"cus_{number}", project="billing"))
        (held,) = claim(stripe, owner="worker-2", limit=1).claims
        reject(
            stripe, held.entry, held.message, RunFailure("UnknownCustomer", f"cus_{number} is not known to the ledger")
        )
        stack.clock.by += 60_000
    stack.clock.by = -40_000
    for name, count in (("GitHubEvents", 38), ("OutboundMail", 131), ("StripeEvents", 12)):
        queue = stack.queue(name)
        for number in range(count):
            project = chance.choice(("search", "checkout", "mobile"))
            enqueue(queue, Draft(b'{"n":1}', key=f"k{number}", project=project, correlation_id=f"req-{number}"))
    for number in range(6):
        enqueue(stack.queue("WebhookIngress"), Draft(json.dumps(PAYLOAD).encode(), correlation_id=f"inc-5{number}"))
    for name, count in (("GitHubEvents", 20), ("StripeEvents", 8), ("WebhookIngress", 3)):
        work_off(stack, name, count)
    stack.clock.by = 0
    for name, count in (("GitHubEvents", 4), ("OutboundMail", 2)):
        claim(stack.queue(name), owner="worker-1", limit=count, lease_ms=600_000)
    pause(stack.queue("NightlyReports"), "olga")
    mail = stack.queue("OutboundMail")
    down = BreakerState(mail.now() + 42_000, 3, mail.now() - 180_000)
    mail.store.set_breaker(mail.state(fresh=True), "http:https://mail.example/send", down)
    return found


def work_off(stack: Stack, name: str, count: int) -> None:
    queue = stack.queue(name)
    held = [held.entry for _ in range(count) for held in claim(queue, owner="worker-3", limit=1).claims]
    for entry in held[:count]:
        ack(queue, [entry], [b'{"ok":true}'])


def bury_many(stack: Stack, name: str, count: int) -> None:
    """Dead letters by the thousand, written straight into their table."""
    from millrace.model.message import Body, DeadLetter, DeadLetterReason, Message, Place
    from millrace.stores.dynamodb.dead_letters import dead_letter_item

    now, store = system_clock(), stack.service.runtime.store
    calls, names = store._calls, store._names  # type: ignore[attr-defined]
    ttl = now // 1000 + 86_400
    place, body = Place("Q#t#Q#0", "s"), Body(b"{}", size=2)
    first = Message("m", stack.tenant, name, "n", place, body, "application/json", now, now, ttl, correlation_id="c")
    dead_letter = DeadLetter(
        first, now, DeadLetterReason.EXHAUSTED, "boom", "ValueError", 3, 3, 50, "", "", (), (), ttl
    )
    dead_letters = [
        replace(dead_letter, message=replace(first, id=f"m{number:06d}"), failed_at=now - 100_000_000 + number)
        for number in range(count)
    ]

    def write(start: int) -> None:
        requests = [{"PutRequest": {"Item": dead_letter_item(one)}} for one in dead_letters[start : start + 25]]
        calls.send("batch_write_item", RequestItems={names.dead_letters: requests})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, count, 25)))
