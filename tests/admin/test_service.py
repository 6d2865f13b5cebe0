"""What the admin API works on: jobs that the schedule goes on with, and their end in the audit log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import functions.admin.app as admin
from millrace.admin import run_job
from millrace.admin.service import AdminService
from millrace.engine.dead_letters import replay
from millrace.engine.queue import Queue
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from tests.admin.calling import DEFINITIONS, Caller, bury
from tests.conftest import NOON, Bench, Clock


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


@pytest.fixture
def alone(memory_bench: Bench) -> AdminService:
    """A deployment in memory: whoever waits moves the clock."""
    clock = memory_bench.clock
    return AdminService(
        memory_bench.runtime,
        DEFINITIONS,
        MemoryAdminJobs(),
        MemoryAuditLog(),
        sleep=lambda seconds: clock.forward(max(1, round(seconds * 1000))),
    )


def started(service: AdminService, bench: Bench, queue: str, count: int, **more: Any) -> AdminJob:
    """A job over so many dead letters of a queue, at 10 a second."""
    if queue in service.definitions.queues:
        bury(service.queue(bench.tenant, queue), count, key="k")
        bench.clock.forward(1)
    job = AdminJob(
        queue, bench.tenant, queue, AdminJobKind.REPLAY, bench.clock.now, "t1", "olga", NOON // 1000 + 1, rate=10.0
    )
    return service.jobs.create(replace(job, **more))


def minute(service: AdminService, bench: Bench, seconds: int = 60) -> dict[str, AdminJob]:
    """What the schedule's call does; every job as it stands afterwards."""
    until = bench.clock.now + seconds * 1000
    service.run_open_jobs(lambda: until - bench.clock.now)
    return {job.queue: job for job in service.jobs.list_jobs(bench.tenant)}


def test_a_short_job_is_done_in_its_minute_beside_a_long_one_and_one_that_always_fails(
    alone: AdminService, memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(alone, memory_bench, "Brief", 5, rate=0.0)  # each time a bug ends its run
    started(alone, memory_bench, "Gone", 0)  # its queue is defined no more
    started(alone, memory_bench, "Jobs", 450)  # 45 s
    started(alone, memory_bench, "Wide", 5)

    def fails(queue: Queue, *given: Any) -> Any:
        if queue.spec.name == "Brief":
            raise TypeError("a bug")
        return replay(queue, *given)

    monkeypatch.setattr(run_job, "replay", fails)
    found = minute(alone, memory_bench, 30)
    assert (found["Wide"].state, found["Wide"].done) == (AdminJobState.DONE, 5)
    assert found["Jobs"].done > 150, "the rest of the time is the long one's"
    assert [found[name].state for name in ("Jobs", "Brief", "Gone")] == [AdminJobState.RUNNING] * 3
    assert minute(alone, memory_bench)["Jobs"].state is AdminJobState.DONE


def test_long_jobs_take_turns(alone: AdminService, memory_bench: Bench) -> None:
    for queue in ("Jobs", "Wide", "Brief"):
        started(alone, memory_bench, queue, 250)
    done = [job.done for job in minute(alone, memory_bench, 30).values()]
    assert min(done) > 60
    assert max(done) - min(done) <= 100, "a turn at most"


def test_who_was_looked_after_longest_ago_comes_first(alone: AdminService, memory_bench: Bench) -> None:
    """More jobs than a minute has turns for: the next minute begins with those that had none."""
    for queue in ("Jobs", "Wide", "Brief", "Keyed"):
        started(alone, memory_bench, queue, 60)
    for _ in range(2):
        found = minute(alone, memory_bench, 8)
    assert all(job.done for job in found.values())
