"""Jobs over HTTP: start, progress, cancel, resume, and what has to be confirmed."""

from __future__ import annotations

import pytest

import functions.admin.app as admin
from millrace.admin.run_job import run_job_slice
from millrace.admin.service import AdminService
from millrace.model.admin_jobs import AdminJob
from tests.admin.calling import Caller, bury
from tests.conftest import Clock

HOUR_MS = 3_600_000


def long() -> int:
    return HOUR_MS


def test_a_job_over_http_from_start_to_end(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    bury(queue, 4, step=lambda: clock.forward(1))
    invoked: list[AdminJob] = []
    service.invoke_worker = invoked.append
    asked = {"kind": "replay", "filter": {"reason": "rejected"}, "rate": 100}
    key = {"idempotency-key": "k1"}
    job = call.ok("POST", "/admin/queues/Jobs/jobs", asked, headers=key)
    assert (job["state"], job["total"], job["rate"], job["created_by"]) == ("running", 4, 100.0, "olga")
    assert call.ok("POST", "/admin/queues/Jobs/jobs", asked, headers=key)["job_id"] == job["job_id"]
    assert [found["job_id"] for found in call.ok("GET", "/admin/jobs")["jobs"]] == [job["job_id"]]
    path = f"/admin/queues/Jobs/jobs/{job['job_id']}"
    assert call.ok("POST", f"{path}/cancel")["state"] == "cancelling"
    named = {"job": {"tenant": call.tenant, "queue": "Jobs", "id": job["job_id"]}}
    assert admin.handler(named, None) == {"ran": [job["job_id"]]}
    assert call.ok("GET", path)["state"] == "cancelled"
    assert call.ok("POST", f"{path}/resume")["state"] == "running"
    assert len(invoked) == 4
    service.queue(call.tenant, "Jobs").runtime.clock = clock
    job_now = service.jobs.get(call.tenant, "Jobs", job["job_id"])
    assert job_now is not None
    run_job_slice(service.jobs, queue, job_now, long, sleep=lambda s: clock.forward(max(1, round(s * 1000))))
    assert call.ok("GET", path)["done"] == 4
    assert len(call.ok("GET", "/admin/queues/Jobs/messages")["messages"]) == 4


@pytest.mark.parametrize("kind", ["purge_queue", "purge_dead_letters"])
def test_a_purge_is_confirmed_by_typing_the_queues_name(call: Caller, kind: str) -> None:
    for confirm in ({}, {"confirm": "jobs"}):
        got = call("POST", "/admin/queues/Jobs/jobs", {"kind": kind, **confirm})
        assert (got.status, got.json["field"]) == (400, "confirm")
    assert call("POST", "/admin/queues/Jobs/jobs", {"kind": kind, "confirm": "Jobs"}).status == 202
