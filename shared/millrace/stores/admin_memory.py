"""Jobs and the audit trail in one process's memory: for tests and for embedding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from millrace.admin.jobs import Job, JobState
from millrace.admin.trail import STARTED, Deed
from millrace.store import Page

if TYPE_CHECKING:
    from millrace.admin.jobs import Jobs
    from millrace.admin.trail import Trail

_Key = tuple[str, str, str]


class MemoryJobs:
    """Jobs in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[_Key, Job] = {}

    def create(self, job: Job) -> Job:
        with self._lock:
            return self._jobs.setdefault((job.tenant, job.queue, job.id), job)

    def get(self, tenant: str, queue: str, job_id: str) -> Job | None:
        with self._lock:
            return self._jobs.get((tenant, queue, job_id))

    def list_jobs(self, tenant: str, queue: str = "") -> list[Job]:
        with self._lock:
            found = [job for job in self._jobs.values() if job.tenant == tenant and queue in ("", job.queue)]
        return sorted(found, key=lambda job: (job.created_at, job.id), reverse=True)

    def list_open(self) -> list[Job]:
        with self._lock:
            return [job for job in self._jobs.values() if job.open]

    def take(self, job: Job, now: int) -> Job | None:
        def taken(current: Job) -> Job | None:
            own = current.lease_token == job.lease_token
            if not current.open or (current.lease_until > now and not own):
                return None
            version = current.lease_version + 1
            return replace(current, lease_token=job.lease_token, lease_until=job.lease_until, lease_version=version)

        return self._change(job.tenant, job.queue, job.id, taken)

    def save(self, job: Job) -> Job | None:
        def saved(current: Job) -> Job | None:
            if current.lease_token != job.lease_token:
                return None
            return replace(job, cancel_asked=current.cancel_asked, lease_version=current.lease_version)

        return self._change(job.tenant, job.queue, job.id, saved)

    def ask_cancel(self, tenant: str, queue: str, job_id: str, now: int) -> Job | None:
        def asked(current: Job) -> Job | None:
            return replace(current, cancel_asked=True, updated_at=now) if current.open else None

        return self._change(tenant, queue, job_id, asked) or self.get(tenant, queue, job_id)

    def reopen(self, tenant: str, queue: str, job_id: str, now: int) -> Job | None:
        def reopened(current: Job) -> Job | None:
            if current.state not in (JobState.CANCELLED, JobState.FAILED):
                return None
            return replace(current, state=JobState.RUNNING, cancel_asked=False, note="", finished_at=0, updated_at=now)

        return self._change(tenant, queue, job_id, reopened) or self.get(tenant, queue, job_id)

    def _change(self, tenant: str, queue: str, job_id: str, change: Callable[[Job], Job | None]) -> Job | None:
        key = (tenant, queue, job_id)
        with self._lock:
            current = self._jobs.get(key)
            changed = change(current) if current else None
            if changed is not None:
                self._jobs[key] = changed
            return changed


class MemoryTrail:
    """Deeds in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deeds: dict[tuple[str, str], Deed] = {}

    def begin(self, deed: Deed) -> None:
        with self._lock:
            self._deeds.setdefault((deed.tenant, deed.sk), deed)

    def end(self, deed: Deed) -> bool:
        with self._lock:
            current = self._deeds.get((deed.tenant, deed.sk))
            if current is None or current.outcome != STARTED:
                return False
            ended = replace(current, outcome=deed.outcome, result=deed.result, ended_at=deed.ended_at)
            self._deeds[deed.tenant, deed.sk] = ended
            return True

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[Deed]:
        with self._lock:
            found = [deed for (owner, sk), deed in self._deeds.items() if owner == tenant and after < sk < before]
        found.sort(key=lambda deed: deed.sk, reverse=True)
        return Page(tuple(found[:limit]), found[limit - 1].sk if len(found) > limit else None)


if TYPE_CHECKING:

    def _keeps_the_interfaces(jobs: MemoryJobs, trail: MemoryTrail) -> tuple[Jobs, Trail]:
        return jobs, trail
