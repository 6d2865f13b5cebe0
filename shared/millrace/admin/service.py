"""What the admin API works on: a deployment's queues, its jobs and its audit trail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from millrace.admin.jobs import Job, Jobs
from millrace.admin.run_job import Slice, run_job_slice
from millrace.admin.trail import YEAR_SECONDS, Deed, Trail
from millrace.api.service import Service
from millrace.definitions import Definitions
from millrace.errors import StoreUnavailable, UnknownQueue
from millrace.ids import secret
from millrace.queue import Runtime
from millrace.tokens import Tokens

log = logging.getLogger(__name__)


#: Has somebody go on with a job soon, elsewhere; it may be lost, since the schedule finds open jobs too.
Summon = Callable[[Job], None]


def nobody(_job: Job) -> None:
    """Leaves the job to the schedule."""


class AdminService(Service):
    """One process's view of a deployment, for operators."""

    def __init__(
        self,
        runtime: Runtime,
        definitions: Definitions,
        tokens: Tokens,
        jobs: Jobs,
        trail: Trail,
        summon: Summon = nobody,
    ) -> None:
        super().__init__(runtime, definitions, tokens, trail=trail)
        self.jobs = jobs
        self.trail: Trail = trail
        self.summon = summon

    def run_job(self, job: Job, left_ms: Callable[[], int]) -> Slice:
        """One slice of a job; the end of a job is a deed of whoever started it."""
        ran = run_job_slice(self.jobs, self.queue(job.tenant, job.queue), job, left_ms)
        self.runtime.credits.give_back()
        self.notify(self.queue(job.tenant, job.queue))
        if ran.ended:
            self._note_end(ran.job)
        return ran

    def run_open_jobs(self, left_ms: Callable[[], int]) -> list[Job]:
        """Go on with every job that nobody is at: what the schedule does each minute."""
        ran = []
        for job in self.jobs.list_open():
            try:
                ran.append(self.run_job(job, left_ms).job)
            except (StoreUnavailable, UnknownQueue) as error:
                extra = {"action": "job_left", "job": job.id, "queue": job.queue, "code": error.code}
                log.warning("job left for later", extra=extra)
        return ran

    def _note_end(self, job: Job) -> None:
        now = self.runtime.clock()
        deed = Deed(
            secret(self.runtime.entropy),
            now,
            job.tenant,
            job.created_by,
            job.created_name,
            "job_ended",
            now // 1000 + YEAR_SECONDS,
            queue=job.queue,
            subject=job.id,
            detail=job.kind.value,
            correlation_id=job.correlation_id,
        )
        counts = f"done {job.done}, skipped {job.skipped}, failed {job.failed}"
        self.trail.begin(replace(deed, outcome=job.state.value, result=counts, ended_at=now))
