"""A window that a job is asked to replay: what is refused, what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.admin.service import AdminService
from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.inspect import list_entries
from millrace.engine.queue import Runtime
from millrace.http.fields import rfc3339
from millrace.model.message import Draft
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.admin.calling import DEFINITIONS, Caller, bury
from tests.conftest import NOON, Clock
from tests.pull.calling import defined

PATH = "/admin/queues/Jobs/jobs"
WINDOW = {"received_from": rfc3339(NOON), "received_before": rfc3339(NOON + 60_000)}
DONE = {"kind": "replay", "of": "done", **WINDOW}


@pytest.fixture
def service(memory_store: MemoryStore, clock: Clock) -> AdminService:
    runtime = Runtime(memory_store, MemoryBlobs(), clock=clock)
    return AdminService(
        runtime,
        DEFINITIONS,
        MemoryAdminJobs(),
        MemoryAuditLog(),
        sleep=lambda seconds: clock.forward(int(seconds * 1000) + 1),
    )


@pytest.fixture
def ids(call: Caller, service: AdminService, clock: Clock) -> list[str]:
    """Three messages that are done, and one that is dead."""
    queue = service.queue(call.tenant, "Jobs")
    found = [enqueue(queue, Draft(b"{}")).message_id for _ in range(3)]
    for held in claim(queue, owner="w", limit=10).claims:
        ack(queue, [held.entry])
    found += [one.message.id for one in bury(queue, 1)]
    clock.forward(1_000)
    return found


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"of": "done"}, "received_from"),
        ({"of": "all", "received_from": WINDOW["received_from"]}, "received_before"),
        ({**WINDOW, "of": "done", "received_before": WINDOW["received_from"]}, "received_before"),
        ({**WINDOW, "of": "done", "filter": {"error": "boom"}}, "filter.error"),
        ({**WINDOW, "of": "all", "filter": {"replayed": False}}, "filter.replayed"),
        ({**WINDOW, "of": "done", "to": "Ordered"}, "any_order"),
        ({**WINDOW, "of": "all", "to": "Keyed"}, "any_order"),
        ({"of": "some"}, "of"),
        ({"kind": "purge_queue", "confirm": "Jobs", "of": "dead"}, "of"),
        ({"kind": "purge_dead_letters", "confirm": "Jobs", **WINDOW}, "received_from"),
        ({"kind": "purge_queue", "confirm": "Jobs", "dry_run": True}, "dry_run"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(call: Caller, asked: dict[str, Any], field: str) -> None:
    got = call("POST", PATH, {"kind": "replay", **asked})
    assert (got.status, got.json["code"], got.json["field"]) == (400, "invalid_field", field)
    assert call.ok("GET", "/admin/jobs")["jobs"] == []


def test_an_ordered_queue_takes_what_is_done_only_when_told_that_it_has_no_order(call: Caller) -> None:
    assert call("POST", PATH, {**DONE, "to": "Ordered", "any_order": True}).status == 202
    dead = {"kind": "replay", "of": "dead", "to": "Ordered"}
    assert call("POST", PATH, dead).status == 202, "dead letters keep their order"


def test_a_token_replays_to_no_queue_that_it_does_not_reach(call: Caller) -> None:
    assert call.principal
    call.principal["queues"] = "Jobs"
    assert call("POST", PATH, DONE).status == 202
    got = call("POST", PATH, {**DONE, "to": "Wide"})
    assert (got.status, got.json["code"]) == (403, "forbidden")
    call.principal["queues"] = "Jobs Wide"
    assert call("POST", PATH, {**DONE, "to": "Wide"}).status == 202
    assert call("POST", PATH, {**DONE, "to": "Nowhere"}).status == 403
    del call.principal["queues"]
    got = call("POST", PATH, {**DONE, "to": "Nowhere"})
    assert (got.status, got.json["code"]) == (404, "unknown_queue")


def test_what_is_encrypted_goes_to_no_queue_that_keeps_it_in_plain(service: AdminService, call: Caller) -> None:
    service.definitions = Definitions(
        {
            "queues": {"Jobs": defined("Jobs", encrypt="alias/shop"), "Plain": defined("Plain"),
                       "Other": defined("Other", encrypt="alias/other")},
            "webhooks": {}, "schedules": {}, "tenants": {},
        }
    )  # fmt: skip
    got = call("POST", PATH, {**DONE, "to": "Plain"})
    assert (got.status, got.json["field"]) == (400, "to")
    assert [call("POST", PATH, {**DONE, "to": name}).status for name in ("Jobs", "Other")] == [202, 202]
    assert call("POST", "/admin/queues/Plain/jobs", {**DONE, "to": "Jobs"}).status == 202


def test_a_dry_run_tells_what_a_run_then_does(call: Caller, service: AdminService, ids: list[str]) -> None:
    asked = {**DONE, "of": "all"}
    dry = call.ok("POST", PATH, {**asked, "dry_run": True})
    service.run_open_jobs(lambda: 60_000)
    shown = call.ok("GET", f"{PATH}/{dry['job_id']}")
    window = shown["window"]
    assert (shown["state"], shown["done"], window["statuses"]) == ("done", 4, {"done": 3, "dead": 1})
    assert {one["message_id"] for one in window["samples"]} == set(ids)
    assert {one["status"] for one in window["samples"]} == {"done", "dead"}
    assert (window["of"], window["to"], shown["dry_run"]) == ("all", "Jobs", True)
    assert window["received_before"] == rfc3339(NOON + 1_000), "not beyond its start"
    assert window["read_units"] > 0
    queue = service.queue(call.tenant, "Jobs")
    assert list_entries(queue).items == ()
    job = call.ok("POST", PATH, asked)
    service.run_open_jobs(lambda: 60_000)
    (listed,) = [one for one in call.ok("GET", PATH)["jobs"] if one["job_id"] == job["job_id"]]
    assert (listed["state"], listed["done"], listed["dry_run"]) == ("done", 4, False)
    messages = queue.store.get_messages([entry.id for entry in list_entries(queue).items])
    assert sorted(message.origin for message in messages.values()) == sorted(ids)


def test_a_window_is_started_once_for_each_key_and_audited(call: Caller, service: AdminService, ids: list[str]) -> None:
    key = {"Idempotency-Key": "once"}
    job = call.ok("POST", PATH, DONE, headers=key)
    assert call.ok("POST", PATH, DONE, headers=key)["job_id"] == job["job_id"]
    service.run_open_jobs(lambda: 60_000)
    assert len(list_entries(service.queue(call.tenant, "Jobs")).items) == 3
    started, *_ = [event for event in call.ok("GET", "/admin/audit")["events"] if event["action"] == "start_job"]
    assert f'"of":"done","received_from":{NOON}' in started["detail"]
    (ended,) = call.ok("GET", "/admin/audit", query="action=job_ended")["events"]
    assert (ended["subject"], ended["result"]) == (job["job_id"], "done 3, skipped 0, failed 0")


def test_dead_letters_alone_are_replayed_as_ever(call: Caller, service: AdminService, ids: list[str]) -> None:
    job = call.ok("POST", PATH, {"kind": "replay", "of": "dead"})
    assert (job["total"], job["total_exact"], "window" in job) == (1, True, False)
    service.run_open_jobs(lambda: 60_000)
    queue = service.queue(call.tenant, "Jobs")
    (entry,) = list_entries(queue).items
    assert queue.store.get_messages([entry.id])[entry.id].origin == ids[3]
