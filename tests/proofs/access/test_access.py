"""The matrix holds: every route, asked by everybody, over the gateway's routes, the authoriser and the handlers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

import functions.admin.app as admin
import functions.authoriser.handler as authoriser
import functions.consumer.handler as consumer
from functions.ingress import handler as ingress
from infra.local.gateway import Binding, GatewayResponse, Request, answer
from infra.local.template import Template
from millrace.admin.service import AdminService
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, reject
from millrace.engine.queue import Runtime
from millrace.http.routes import Api, Route
from millrace.model.clock import system_clock
from millrace.model.message import Draft
from millrace.model.tokens import Scope, issue, revoke
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.stores.memory.uploads import MemoryUploads
from tests.admin.calling import DEFINITIONS
from tests.proofs.access.matrix import (
    ASKERS,
    EVERY_ROUTE,
    EXPIRED,
    HOOKS,
    LINES,
    MALFORMED,
    NOBODY,
    REVOKED,
    RIGHT,
    ROWS,
    STRANGER,
    UNKNOWN,
    WRONG_QUEUE,
    WRONG_SCOPE,
    WRONG_TENANT,
    expected,
    expected_of_hook,
    hooks,
    markdown,
    pages,
)
from tests.proofs.attack import count
from tests.webhooks.gate import open_gate, signed

HERE, ELSEWHERE = "here", "elsewhere"
HANDLERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "ConsumerFunction": consumer.handler,
    "AdminFunction": admin.handler,
    "IngressFunction": ingress.handler,
    "AuthoriserFunction": authoriser.handler,
}


@dataclass
class Deployment:
    """Everything behind the gateway, in one process."""

    bindings: list[Binding]
    service: AdminService
    pull: PullService
    tokens: DynamoTokens

    def token(self, asker: str, needed: tuple[Scope, ...] = ()) -> str:
        """The Authorization header of an asker of a route that needs one of these scopes."""
        if asker == NOBODY:
            return ""
        if asker == MALFORMED:
            return "Bearer mrt_nothing"
        if asker == UNKNOWN:
            return f"Bearer mrt_{'a' * 16}_{'b' * 43}"
        scopes = [scope for scope in Scope if asker != WRONG_SCOPE or scope not in needed]
        tenant = ELSEWHERE if asker in (WRONG_TENANT, STRANGER) else HERE
        ends = system_clock() - 1 if asker == EXPIRED else 0
        queues = ["Wide"] if asker == WRONG_QUEUE else []
        token, text = issue(
            self.tokens, name=asker, scopes=scopes, tenants=[tenant], clock=system_clock, expires_at=ends, queues=queues
        )
        if asker == REVOKED:
            revoke(self.tokens, token.id, system_clock())
        return f"Bearer {text}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        authorization: str = "",
        query: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> GatewayResponse:
        headers = {"content-type": "application/json", **(headers or {})}
        if authorization:
            headers["authorization"] = authorization
        return answer(self.bindings, Request(method, path, query, headers, body, "203.0.113.9"))

    def furnish(self) -> dict[str, str]:
        """One of everything that a request may name."""
        queue = self.service.queue(HERE, "Jobs")
        enqueue(queue, Draft(b"dead"))
        (dying,) = claim(queue, owner="w").claims
        reject(queue, dying.entry, dying.message, RunFailure("E", "e"))
        (dead_letter,) = list_dead_letters(queue).items
        held_id = enqueue(queue, Draft(b"held")).message_id
        (held,) = claim(queue, owner="w", lease_ms=600_000).claims
        message_id = enqueue(queue, Draft(b"ready")).message_id
        started = self.ask(
            "POST", "/admin/queues/Jobs/jobs", authorization=self.token(RIGHT), body=b'{"kind": "replay"}'
        )
        asked = b'{"key": "k", "dry_run": true}'
        erasure = self.ask("POST", "/admin/erasures", authorization=self.token(RIGHT), body=asked)
        return {
            "queue": "Jobs",
            "message_id": message_id,
            "held_id": held_id,
            "dead_letter_id": dead_letter.sk.replace("#", "."),
            "claim": self.pull.handles.write(queue, held.entry, held.lost),
            "job_id": json.loads(started.body)["job_id"],
            "erasure_id": json.loads(erasure.body)["job_id"],
        }


@pytest.fixture
def deployment(engine_client: DynamoDBClient, tables: TableNames, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    tokens = DynamoTokens(engine_client, tables.queue)
    blobs = MemoryBlobs()
    runtime = Runtime(MemoryStore(), blobs, chance=lambda: 0.5, uploads=MemoryUploads(blobs, system_clock))
    service = AdminService(runtime, DEFINITIONS, MemoryAdminJobs(), MemoryAuditLog())
    api = Api(PullService(runtime, DEFINITIONS, tokens, Dispatcher(schedule=SHARED)), V1_ROUTES)
    gate = open_gate(runtime, HERE)
    monkeypatch.setattr(admin, "service", lambda: service)
    monkeypatch.setattr(consumer, "api", lambda: api)
    monkeypatch.setattr(ingress, "ingress", lambda: gate)
    monkeypatch.setattr(authoriser, "tokens", lambda: tokens)
    bindings = [
        Binding(route.key, HANDLERS[route.function], HANDLERS[route.authoriser] if route.authoriser else None)
        for route in Template.read().routes()
    ]
    return Deployment(bindings, service, api.service, tokens)


def _filled(value: Any, things: Mapping[str, str]) -> Any:
    """A row's value with the names of things that exist."""
    if isinstance(value, dict):
        return {name: _filled(item, things) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, things) for item in value]
    return value.format(**things) if isinstance(value, str) else value


def _lines(response: GatewayResponse) -> list[int]:
    """What each line of a batch was answered."""
    said = json.loads(response.body)
    return [line["http_status"] for line in said.get("items", []) if "http_status" in line]


@pytest.mark.parametrize("route", EVERY_ROUTE, ids=lambda route: route.name)
def test_a_route_opens_to_the_right_token_and_to_no_other(route: Route[Any], deployment: Deployment) -> None:
    row, things = ROWS[route.name], deployment.furnish()
    path = route.path.format(**{**things, **_filled(row.path, things)})
    body = json.dumps(_filled(row.body, things)).encode() if row.body is not None else row.content
    answered: dict[str, int] = {}
    for asker in ASKERS:
        query = _filled(row.query, things)
        if asker == WRONG_TENANT:
            query = "&".join(filter(None, (query, f"tenant_id={HERE}")))
        authorization = deployment.token(asker, route.scopes)
        response = deployment.ask(
            route.method,
            path,
            authorization=authorization,
            query=query,
            body=body,
            headers=_filled(row.headers, things),
        )
        answered[asker] = response.status
        if asker in (STRANGER, WRONG_QUEUE) and response.status < 400 and route.scopes:
            seen = response.body.decode()
            assert [name for name, one in things.items() if name != "queue" and one in seen] == [], "a stranger sees it"
            assert 200 not in _lines(response), "a stranger finished it in a batch"
            assert asker != WRONG_QUEUE or '"Jobs"' not in seen, "it sees another queue"
        if response.status >= 400 and asker in (WRONG_SCOPE, WRONG_TENANT, WRONG_QUEUE):
            assert response.headers["Content-Type"] == "application/problem+json"
        if asker == RIGHT and row.body is LINES:
            assert _lines(response) == [200], "the same line, by who may"
    assert answered == expected(route)
    count("access matrix", route.name, answered.values())


@pytest.mark.parametrize("key", hooks())
def test_a_webhook_opens_to_a_signature_and_to_no_token(key: str, deployment: Deployment) -> None:
    method, _, template = key.partition(" ")
    path = template.format(tenant=HERE, name="PagerDuty")
    answered = {}
    for asker in ASKERS:
        authorization = deployment.token(asker)
        answered[asker] = deployment.ask(
            method, path, authorization=authorization, body=b'{"incident": {"id": "1"}}'
        ).status
    request = signed("PagerDuty", b'{"incident": {"id": "1"}}', system_clock(), path=path)
    headers = {name: ",".join(request.headers.all(name)) for name in request.headers}
    rightly = Request(method, path, "", {**headers, "content-type": "application/json"}, request.body, "203.0.113.9")
    answered[RIGHT] = answer(deployment.bindings, rightly).status
    assert answered == expected_of_hook(key)
    count("access matrix", key, answered.values())


@pytest.mark.parametrize("path", pages())
def test_a_page_of_the_console_opens_to_everybody(path: str, deployment: Deployment) -> None:
    answered = {asker: deployment.ask("GET", path, authorization=deployment.token(asker)).status for asker in ASKERS}
    assert answered == dict.fromkeys(ASKERS, 200)
    count("access matrix", path, answered.values())


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert {route.name for route in EVERY_ROUTE} == set(ROWS)
    assert len({route.name for route in EVERY_ROUTE}) == len(EVERY_ROUTE)
    assert set(hooks()) == set(HOOKS)


def test_every_way_into_the_gateway_is_asked_about() -> None:
    bindings = [Binding(route.key, lambda _event, _context: None) for route in Template.read().routes()]
    asked = [(route.method, route.path.replace("{", "").replace("}", "")) for route in EVERY_ROUTE]
    asked += [("GET", path) for path in pages()]
    asked += [(key.split()[0], key.split()[1].replace("{", "").replace("}", "")) for key in hooks()]
    used = {next(b.key for b in bindings if b.match(method, path) is not None) for method, path in asked}
    assert used == {binding.key for binding in bindings}


def test_the_matrix_prints_a_line_for_each() -> None:
    assert sum(line.startswith("| `") for line in markdown().splitlines()) == len(EVERY_ROUTE) + len(pages()) + len(
        hooks()
    )
