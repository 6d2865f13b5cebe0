"""What the admin API works on: jobs that the schedule goes on with, and their end in the audit log."""

from __future__ import annotations

import functions.admin.app as admin
from millrace.admin.service import AdminService
from tests.admin.calling import Caller, bury
from tests.conftest import Clock


def test_the_schedule_goes_on_with_open_jobs_and_their_end_is_an_audit_event(
    call: Caller, service: AdminService, clock: Clock
) -> None:
    bury(service.queue(call.tenant, "Jobs"), 2, step=lambda: clock.forward(1))
    job = call.ok("POST", "/admin/queues/Jobs/jobs", {"kind": "replay"})
    assert job["job_id"] in admin.handler({"source": "aws.events"}, None)["ran"]
    assert call.ok("GET", f"/admin/queues/Jobs/jobs/{job['job_id']}")["state"] == "done"
    events = call.ok("GET", "/admin/audit", query=f"subject={job['job_id']}")["events"]
    assert [(event["action"], event["outcome"], event["result"]) for event in events] == [
        ("job_ended", "done", "done 2, skipped 0, failed 0")
    ]
