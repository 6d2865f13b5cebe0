"""Queues for operators, through the admin function: numbers, lists, pause, broken claims."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.admin.service import AdminService
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.http.fields import rfc3339
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState
from tests.admin.calling import Caller, bury
from tests.conftest import Clock


def test_queues_show_what_an_operator_asks_for(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    for project in ("billing", "billing", "search"):
        enqueue(queue, Draft(b"{}", project=project))
    claim(queue, owner="worker-7", limit=1)
    clock.forward(5_000)
    rows = {row["name"]: row for row in call.ok("GET", "/admin/queues")["queues"]}
    assert set(rows) == {"Jobs", "Ordered", "Keyed", "Places", "Small", "Brief", "Wide"}
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
    unknown = call("GET", "/admin/queues/Jobs/messages", query="lane=fast")
    assert (unknown.status, unknown.json["code"]) == (400, "invalid_field")
    assert "lane" in unknown.json["detail"]


def test_lists_by_status_hold_what_the_numbers_count(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Ordered")
    for _ in range(4):
        enqueue(queue, Draft(b"{}"))
    first, second = claim(queue, owner="w", limit=2).claims
    nack(queue, first.entry, first.message, RunFailure("E", "x"), delay_ms=60_000)
    numbers = call.ok("GET", "/admin/queues/Ordered")
    for status, count in (("ready", 2), ("scheduled", 1), ("in_flight", 1)):
        listed = call.ok("GET", "/admin/queues/Ordered/messages", query=f"status={status}")["messages"]
        assert len(listed) == numbers[status] == count
    assert listed[0]["message_id"] == second.message.id
    assert len(call.ok("GET", "/admin/queues/Ordered/messages", query="lane=ready")["messages"]) == 4


def test_claims_are_shown_and_can_be_broken(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="worker-3", limit=1).claims
    (shown,) = call.ok("GET", "/admin/queues/Jobs/claims")["claims"]
    assert (shown["owner"], shown["message_id"]) == ("worker-3", held.message.id)
    assert call.ok("POST", f"/admin/queues/Jobs/messages/{held.message.id}/release") == {"ok": True}
    assert ack(queue, [held.entry])[0] is not None, "the holder's claim is stale"
    assert call("POST", f"/admin/queues/Jobs/messages/{held.message.id}/release").status == 404


def test_one_message_is_cancelled_unless_somebody_holds_it(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="w", limit=1).claims
    waiting = enqueue(queue, Draft(b"{}")).message_id
    path = "/admin/queues/Jobs/messages"
    assert call.ok("POST", f"{path}/{waiting}/cancel") == {"ok": True}
    assert call("POST", f"{path}/{held.message.id}/cancel").json["code"] == "message_held"
    assert call("POST", f"{path}/{waiting}/cancel").status == 404
    assert call.ok("GET", "/admin/queues/Jobs")["depth"] == 1
    assert call.ok("POST", f"{path}/{held.message.id}/cancel", {"running": True}) == {"ok": True}
    assert call.ok("GET", "/admin/queues/Jobs")["depth"] == 0


def test_a_paused_queue_says_by_whom_and_hands_out_nothing(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"{}"))
    shown = call.ok("POST", "/admin/queues/Jobs/pause")
    assert (shown["paused"], shown["paused_by"]) == (True, "olga")
    assert not claim(queue, owner="w", limit=1).claims
    assert call.ok("POST", "/admin/queues/Jobs/resume")["paused"] is False
    assert claim(queue, owner="w", limit=1).claims


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


def test_a_breaker_is_shown_in_words_and_can_be_reset(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    opened = BreakerState(queue.now() + 12_000, 2, since=queue.now() - 190_000)
    queue.store.set_breaker(queue.state(fresh=True), "http:down", opened)
    queue.state(fresh=True)
    (shown,) = call.ok("GET", "/admin/queues/Jobs")["breakers"]
    assert (shown["target"], shown["failed_probes"]) == ("http:down", 2)
    assert (shown["since"], shown["until"]) == (rfc3339(opened.since), rfc3339(opened.until))
    assert shown["says"] == "standing still because http:down is down for 3 min 10 s, next look in 12 s"
    assert call("POST", "/admin/queues/Jobs/breakers/reset", {"target": "http:other"}).status == 404
    assert call.ok("POST", "/admin/queues/Jobs/breakers/reset", {"target": "http:down"})["breakers"] == []
