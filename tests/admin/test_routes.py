"""Every route of the admin API through the Chalice app, on DynamoDB Local."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import functions.admin.app as admin
from millrace.admin.routes import ROUTES
from millrace.admin.service import AdminService
from millrace.definitions import load
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.model.message import Draft
from millrace.pull.api import document
from tests.admin.calling import Caller, bury
from tests.conftest import Clock


def test_queues_show_what_an_operator_asks_for(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    for project in ("billing", "billing", "search"):
        enqueue(queue, Draft(b"{}", project=project))
    claim(queue, owner="worker-7", limit=1)
    clock.forward(5_000)
    rows = {row["name"]: row for row in call.ok("GET", "/admin/queues")["queues"]}
    assert set(rows) == {"Jobs", "Ordered", "Keyed", "Small", "Brief", "Wide"}
    row = rows["Jobs"]
    assert (row["depth"], row["ready"], row["in_flight"], row["scheduled"]) == (3, 2, 1, 0)
    assert row["oldest_age_ms"] == 5_000
    assert row["by_project"] == {"billing": 2, "search": 1}
    assert (row["paused"], row["breakers"]) == (False, [])
    assert rows["Wide"]["rate_per_second"] == 5.0


def test_one_queue_comes_with_its_definition_in_words(call: Caller) -> None:
    shown = call.ok("GET", "/admin/queues/Ordered")
    assert {"name": "order", "says": "one after the other, as they came"} in shown["definition"]
    assert [retry["wait"] for retry in shown["retries"]] == ["at once", "1 s", "2 s"]


def test_stats_cost_the_same_however_deep_the_queue_is(
    call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = service.queue(call.tenant, "Jobs")
    reads: list[str] = []
    calls = service.runtime.store._calls  # type: ignore[attr-defined]
    send = calls.send

    def counting(operation: str, **given: Any) -> Any:
        reads.append(operation)
        return send(operation, **given)

    monkeypatch.setattr(calls, "send", counting)
    spent = []
    for depth in (400, 1_600):
        for _ in range(depth // 200):
            enqueue_all(queue, [Draft(b"{}") for _ in range(200)])
        reads.clear()
        assert call.ok("GET", "/admin/queues/Jobs")["exact"] is False
        spent.append(len(reads))
    assert spent[0] == spent[1] <= 10


def test_messages_page_by_lane_and_cursor(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    ids = [enqueue(queue, Draft(b"{}")).message_id for _ in range(5)]
    first = call.ok("GET", "/admin/queues/Jobs/messages", query="lane=ready&limit=3")
    second = call.ok("GET", "/admin/queues/Jobs/messages", query=f"lane=ready&limit=3&cursor={first['next']}")
    assert [m["message_id"] for page in (first, second) for m in page["messages"]] == ids
    assert second["next"] is None


def test_a_message_shows_its_whole_life(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    receipt = enqueue(queue, Draft(b'{"a": 1}', source="github", correlation_id="corr-1"))
    for _ in range(3):
        clock.forward(10_000)
        (held,) = claim(queue, owner="worker-1", limit=1).claims
        clock.forward(100)
        nack(queue, held.entry, held.message, RunFailure("TimeoutError", "no answer"), lost=held.lost)
    shown = call.ok("GET", f"/admin/queues/Jobs/messages/{receipt.message_id}")
    assert shown["status"] == "dead"
    assert shown["body"] == {"a": 1}
    assert [moment["what"] for moment in shown["timeline"]] == ["received", *["claimed", "failed"] * 3, "dead"]
    assert shown["timeline"][2]["error"] == "no answer"
    assert shown["timeline"][-1]["error_type"] == "exhausted"
    replayed = call.ok("POST", f"/admin/queues/Jobs/dead-letters/{shown['dead_letter']['id']}/replay")
    after = call.ok("GET", f"/admin/queues/Jobs/messages/{receipt.message_id}")
    assert after["timeline"][-1]["message_id"] == replayed["new_message_id"]
    again = call.ok("GET", f"/admin/queues/Jobs/messages/{replayed['new_message_id']}")
    assert (again["origin"], again["correlation_id"]) == (receipt.message_id, "corr-1")
    (held,) = claim(queue, owner="worker-2", limit=1).claims
    assert call.ok("GET", f"/admin/queues/Jobs/messages/{held.message.id}")["timeline"][-1]["who"] == "worker-2"
    ack(queue, [held.entry], [b'"fine"'])
    done = call.ok("GET", f"/admin/queues/Jobs/messages/{held.message.id}")
    assert (done["status"], done["timeline"][-1]["what"], done["result"]) == ("done", "done", "fine")


def test_a_body_is_downloaded_byte_for_byte(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    body = bytes(range(256)) * 4 + b"<script>"
    (dead_letter,) = bury(queue, 1, body=body, content_type="text/html")
    for path in (f"messages/{dead_letter.message.id}", f"dead-letters/{dead_letter.sk.replace('#', '.')}"):
        got = call("GET", f"/admin/queues/Jobs/{path}/body")
        assert (got.status, got.content, got.headers["Content-Type"]) == (200, body, "text/html")
        assert got.headers["Content-Disposition"] == "attachment"
        assert got.headers["X-Content-Type-Options"] == "nosniff"
        part = call("GET", f"/admin/queues/Jobs/{path}/body", headers={"range": "bytes=10-19"})
        assert (part.status, part.content) == (206, body[10:20])


def test_claims_are_shown_and_can_be_broken(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="worker-3", limit=1).claims
    (shown,) = call.ok("GET", "/admin/queues/Jobs/claims")["claims"]
    assert (shown["owner"], shown["message_id"]) == ("worker-3", held.message.id)
    assert call.ok("POST", f"/admin/queues/Jobs/messages/{held.message.id}/release") == {"ok": True}
    assert ack(queue, [held.entry])[0] is not None, "the holder's claim is stale"
    assert call("POST", f"/admin/queues/Jobs/messages/{held.message.id}/release").status == 404


def test_dead_letters_are_listed_by_filter_and_purged(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    step = lambda: clock.forward(1_000)  # noqa: E731
    bury(queue, 2, error="no route to host", project="billing", correlation_id="corr-2", step=step)
    bury(queue, 3, error="bad payload", step=step)
    for query, count in (
        ("", 5),
        ("error=NO%20ROUTE", 2),
        ("project=billing", 2),
        ("correlation_id=corr-2", 2),
        ("reason=rejected", 5),
        ("reason=expired", 0),
        ("failed_from=2027-01-15T08:00:02Z", 3),
        ("failed_before=2027-01-15T08:00:01Z", 1),
    ):
        assert len(call.ok("GET", "/admin/queues/Jobs/dead-letters", query=query)["dead_letters"]) == count, query
    dead_letter = call.ok("GET", "/admin/queues/Jobs/dead-letters", query="limit=1")["dead_letters"][0]
    whole = call.ok("GET", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}")
    assert whole["history"][0]["error"] == "bad payload"
    assert call.ok("DELETE", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}") == {"ok": True}
    assert call("GET", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}").status == 404
    assert call.ok("GET", "/admin/queues/Jobs")["dead_letters"] == 4


def test_a_paused_queue_says_by_whom_and_hands_out_nothing(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"{}"))
    shown = call.ok("POST", "/admin/queues/Jobs/pause")
    assert (shown["paused"], shown["paused_by"]) == (True, "olga")
    assert not claim(queue, owner="w", limit=1).claims
    assert call.ok("POST", "/admin/queues/Jobs/resume")["paused"] is False
    assert claim(queue, owner="w", limit=1).claims


def test_search_finds_by_message_dead_letter_and_correlation_id(call: Caller, service: AdminService) -> None:
    queue, other = service.queue(call.tenant, "Jobs"), service.queue(call.tenant, "Wide")
    (dead_letter,) = bury(queue, 1, correlation_id="corr-9")
    waiting = enqueue(other, Draft(b"{}", correlation_id="corr-9", not_before=service.runtime.clock() + 60_000))

    def found(q: str) -> list[tuple[str, str]]:
        answer = call.ok("GET", "/admin/search", query=f"q={q}")
        assert answer["complete"] is True
        return sorted((item["queue"], item["status"]) for item in answer["found"])

    assert found(dead_letter.message.id) == found(dead_letter.sk.replace("#", ".")) == [("Jobs", "dead")]
    assert found("corr-9") == [("Jobs", "dead"), ("Wide", "scheduled")]
    assert found(waiting.message_id) == [("Wide", "scheduled")]
    assert found("nothing-of-that-name") == []


def test_another_tenants_messages_are_not_to_be_found(call: Caller, service: AdminService) -> None:
    (dead_letter,) = bury(service.queue(f"{call.tenant}-other", "Jobs"), 1)
    assert call.ok("GET", "/admin/search", query=f"q={dead_letter.message.id}")["found"] == []
    assert call("GET", f"/admin/queues/Jobs/messages/{dead_letter.message.id}").status == 404
    got = call("GET", "/admin/queues", query=f"tenant_id={call.tenant}-other")
    assert (got.status, got.json["code"]) == (403, "forbidden")


def test_a_token_for_several_tenants_names_the_one_it_means(call: Caller, service: AdminService) -> None:
    bury(service.queue(f"{call.tenant}-b", "Jobs"), 1)
    assert call.principal is not None
    call.principal["tenants"] = f"{call.tenant} {call.tenant}-b"
    dead_letters = call.ok("GET", "/admin/queues/Jobs/dead-letters", query=f"tenant_id={call.tenant}-b")["dead_letters"]
    assert len(dead_letters) == 1
    assert call.ok("GET", "/admin/whoami", query=f"tenant_id={call.tenant}-b")["tenants"] == [
        call.tenant,
        f"{call.tenant}-b",
    ]


def _concrete(path: str) -> str:
    names = {"queue": "Jobs", "message_id": "m1", "dead_letter_id": "1800000000000.m1", "job_id": "j1"}
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_needs_its_scope_and_refuses_with_a_problem_document(call: Caller, route: Any) -> None:
    path = _concrete(route.path)
    assert route.scope is not None
    assert call.principal is not None
    call.principal["scopes"] = "consume enqueue"
    got = call(route.method, path)
    assert (got.status, got.json["code"], got.headers["Content-Type"]) == (403, "forbidden", "application/problem+json")
    call.principal = None
    got = call(route.method, path)
    assert (got.status, got.json["code"]) == (401, "unauthorised")
    assert got.headers["X-Correlation-Id"] == got.json["correlation_id"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_is_in_the_one_openapi_document(route: Any) -> None:
    operation = document()["paths"][route.path][route.method.lower()]
    assert operation["operationId"] == route.name
    assert operation["x-millrace-scope"] == route.scope.value
    assert {"400", "401", "403", "404", "500", "503"} <= operation["responses"].keys()


def test_what_changes_needs_the_operate_scope() -> None:
    looks = {"admin_dry_run"}
    for route in ROUTES:
        assert (route.scope == "operate") == (route.method != "GET" and route.name not in looks), route.name


def test_unknown_paths_and_methods_are_problems_too(call: Caller) -> None:
    got = call("GET", "/admin/nothing")
    assert (got.status, got.json["code"]) == (404, "not_found")
    got = call("PUT", "/admin/queues/Jobs/pause")
    assert (got.status, got.json["code"], got.headers["Allow"]) == (405, "method_not_allowed", "POST")
    got = call("GET", "/admin/queues/Jbos")
    assert (got.status, got.json["code"]) == (404, "unknown_queue")
    got = call("GET", "/admin/queues/Jobs/messages", query="lain=ready")
    assert (got.status, got.json["field"]) == (400, "lain")
    got = call("POST", "/admin/queues/Jobs/jobs", {"kind": "explode"})
    assert (got.status, got.json["field"]) == (400, "kind")


def test_requests_served_at_once_do_not_mix(call: Caller, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the local stack: both requests are with Chalice before either is answered."""
    together, api = threading.Barrier(2, timeout=30), admin.api

    def meet() -> Any:
        together.wait()
        return api()

    monkeypatch.setattr(admin, "api", meet)

    def ask(name: str) -> str:
        caller = Caller(admin.handler, tenant)
        assert caller.principal is not None
        caller.principal["name"] = name
        return str(caller.ok("GET", "/admin/whoami")["name"])

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, ["one", "other"])) == ["one", "other"]


def test_a_fault_of_ours_shows_nothing_of_itself(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.admin.inspect.show_queue_row", lambda *_: 1 / 0)
    got = call("GET", "/admin/queues")
    assert (got.status, got.json["code"]) == (500, "internal")
    assert b"division" not in got.content


def test_every_answer_fits_its_schema(call: Caller, service: AdminService) -> None:
    """What the document promises of a success is what comes: no member more, none less."""
    bury(service.queue(call.tenant, "Jobs"), 1)
    dead_letter = call.ok("GET", "/admin/queues/Jobs/dead-letters")["dead_letters"][0]
    job = call.ok("POST", "/admin/queues/Jobs/jobs", {"kind": "replay"})
    names = {
        "{message_id}": dead_letter["message_id"],
        "{dead_letter_id}": dead_letter["id"],
        "{job_id}": job["job_id"],
    }
    for route in ROUTES:
        path = route.path.replace("{queue}", "Jobs")
        for name, value in names.items():
            path = path.replace(name, value)
        if route.method == "GET" and not path.endswith("/body"):
            answer = call.ok("GET", path, query="q=x" if path.endswith("search") else "")
            _check(answer, route.replies[200].schema, route.name)


def _check(value: Any, schema: Any, where: str) -> None:
    if "anyOf" in schema:
        schema = next(kind for kind in schema["anyOf"] if (kind["type"] == "null") == (value is None))
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    python = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}
    fits = [value is None if kind == "null" else isinstance(value, python[kind]) for kind in kinds if kind]
    assert not fits or any(fits), where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= value.keys() <= schema["properties"].keys(), where
        for name, inner in value.items():
            _check(inner, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        for inner in value:
            _check(inner, schema["items"], where)


@pytest.mark.parametrize("sample", sorted(Path("events").glob("admin-*.json")), ids=lambda path: path.stem)
def test_each_sample_event_is_answered_by_the_handler(
    sample: Path, call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "definitions", load(Path("infra/definitions.json")))
    event = json.loads(sample.read_text())
    if "requestContext" not in event:
        assert admin.handler(event, None).keys() == {"ran"}
        return
    event["requestContext"]["authorizer"]["lambda"]["tenants"] = call.tenant
    wanted = {"admin-start-replay-job": 202, "admin-show-message": 404}
    assert admin.handler(event, None)["statusCode"] == wanted.get(sample.stem, 200)
