"""How an erasure goes through the tables: page by page, paced, from where it was saved."""

from __future__ import annotations

import pytest

from millrace.admin import run_erase
from millrace.admin.service import AdminService
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Draft
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.admin.calling import DEFINITIONS, Caller
from tests.conftest import Clock


@pytest.fixture
def service(memory_store: MemoryStore, clock: Clock) -> AdminService:
    """On a table of its own: pages of two through what all tests share would take minutes."""
    runtime = Runtime(memory_store, MemoryBlobs(), clock=clock)
    return AdminService(runtime, DEFINITIONS, MemoryAdminJobs(), MemoryAuditLog())


def test_a_scan_goes_on_page_by_page_and_waits_in_between(
    call: Caller, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(run_erase, "SCAN_PAGE", 2)
    monkeypatch.setattr(run_erase.EraseRun, "_wait", lambda _run, millis: waits.append(millis))
    queue = service.queue(call.tenant, "Jobs")
    ids = [enqueue(queue, Draft(b"x", key="alice" if number % 2 else "bob")).message_id for number in range(7)]
    job = call.ok("POST", "/admin/erasures", {"key": "alice", "confirm": call.tenant})
    kept = service.jobs.get(call.tenant, "", job["job_id"])
    assert kept
    slices = 0
    while kept.open:
        left = iter([60_000, 60_000, 60_000])
        kept = service.run_job(kept, lambda left=left: next(left, 0)).job  # type: ignore[misc]
        slices += 1
    assert slices > 1, "a slice ended in the middle"
    assert waits
    assert set(waits) == {2 / run_erase.UNITS_PER_SECOND * 1000}, "two items a page, at a unit each"
    assert kept.done == 3
    purged = [status(queue, one).status is MessageStatus.PURGED for one in ids]
    assert purged == [bool(number % 2) for number in range(7)]
