"""The audit log: an event for every change, before and after it; nothing edits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.admin.api import ROUTES
from millrace.admin.service import AdminService
from millrace.model.audit import YEAR_SECONDS, AuditEvent, AuditFilter, AuditLog, list_audit_events
from millrace.model.errors import StoreUnavailable
from tests.admin.calling import Caller, bury
from tests.conftest import NOON, Clock


def test_a_change_leaves_who_what_when_and_its_outcome(call: Caller, service: AdminService) -> None:
    (dead_letter,) = bury(service.queue(call.tenant, "Jobs"), 1)
    dead_letter_id = dead_letter.sk.replace("#", ".")
    replayed = call.ok(
        "POST", f"/admin/queues/Jobs/dead-letters/{dead_letter_id}/replay", headers={"x-correlation-id": "c1"}
    )
    (event,) = call.ok("GET", "/admin/audit")["events"]
    assert event["name"] == "olga"
    assert event["token_id"] == "abcdefghijklmnop"
    assert (event["action"], event["queue"], event["subject"]) == ("replay_dead_letter", "Jobs", dead_letter_id)
    assert (event["outcome"], event["result"]) == ("ok", replayed["new_message_id"])
    assert (event["correlation_id"], event["at"]) == ("c1", "2027-01-15T08:00:00.000Z")
    (kept,) = list_audit_events(service.audit_log, call.tenant).items
    assert kept.ttl - kept.at // 1000 == YEAR_SECONDS == 366 * 86_400


def test_a_change_that_was_refused_leaves_its_code(call: Caller) -> None:
    assert call("DELETE", "/admin/queues/Jobs/dead-letters/1800000000000.m1").status == 404
    assert call("POST", "/admin/queues/Jobs/jobs", {"kind": "purge_queue", "confirm": "jobs"}).status == 400
    assert {event["outcome"] for event in call.ok("GET", "/admin/audit")["events"]} == {"not_found", "invalid_field"}


def test_looking_leaves_no_audit_event(call: Caller) -> None:
    call.ok("GET", "/admin/queues")
    call.ok("POST", "/admin/queues/Jobs/dry-run", {})
    assert call.ok("GET", "/admin/audit")["events"] == []


def test_without_an_audit_event_nothing_is_done(
    call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(event: AuditEvent) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(service.audit_log, "begin", silent)
    assert call("POST", "/admin/queues/Jobs/pause").status == 503
    assert call.ok("GET", "/admin/queues/Jobs")["paused"] is False


def test_a_change_that_happened_is_answered_though_its_outcome_was_not_written(
    call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(event: AuditEvent) -> bool:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(service.audit_log, "end", silent)
    assert call.ok("POST", "/admin/queues/Jobs/pause")["paused"] is True
    assert call.ok("GET", "/admin/audit")["events"][0]["outcome"] == "started"


def test_every_change_is_audited(call: Caller, service: AdminService) -> None:
    changes = [route for route in ROUTES if route.scopes == ("operate",)]
    assert {route.name for route in changes} == {
        "pause_queue",
        "resume_queue",
        "break_claim",
        "cancel_message",
        "reset_breakers",
        "replay_dead_letter",
        "purge_dead_letter",
        "start_job",
        "cancel_job",
        "resume_job",
        "start_erasure",
        "cancel_erasure",
        "resume_erasure",
    }
    for route in changes:
        path = route.path.replace("{queue}", "Jobs").replace("{dead_letter_id}", "1800000000000.m1")
        path = path.replace("{message_id}", "m1").replace("{job_id}", "j1")
        bodies = {"start_job": {"kind": "replay"}, "start_erasure": {"key": "k", "dry_run": True}}
        call(route.method, path, bodies.get(route.name))
    assert {event["action"] for event in call.ok("GET", "/admin/audit")["events"]} == {route.name for route in changes}


def test_no_route_changes_the_audit_log() -> None:
    assert [route.method for route in ROUTES if route.path.startswith("/admin/audit")] == ["GET"]


def _event(tenant: str, number: int, queue: str = "") -> AuditEvent:
    at = NOON + number
    return AuditEvent(f"d{number}", at, tenant, "t1", "olga", "pause_queue", at // 1000 + YEAR_SECONDS, queue)


def test_audit_events_page_newest_first_and_filter(audit_log: AuditLog, tenant: str) -> None:
    for number in range(7):
        audit_log.begin(_event(tenant, number, queue="Jobs" if number % 2 else "Wide"))
    first = list_audit_events(audit_log, tenant, limit=3)
    second = list_audit_events(audit_log, tenant, limit=3, cursor=first.next)
    third = list_audit_events(audit_log, tenant, limit=3, cursor=second.next)
    assert [event.id for page in (first, second, third) for event in page.items] == [f"d{n}" for n in range(6, -1, -1)]
    assert third.next is None
    only = AuditFilter(queue="Jobs", since=NOON + 2, before=NOON + 6)
    assert [event.id for event in list_audit_events(audit_log, tenant, only=only).items] == ["d5", "d3"]


def test_an_outcome_is_written_once(audit_log: AuditLog, tenant: str, clock: Clock) -> None:
    event = _event(tenant, 1)
    audit_log.begin(event)
    assert audit_log.end(replace(event, outcome="ok", ended_at=NOON))
    assert not audit_log.end(replace(event, outcome="not_found"))
    assert [found.outcome for found in list_audit_events(audit_log, tenant).items] == ["ok"]
