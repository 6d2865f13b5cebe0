"""What the admin API works on: a deployment's queues, its jobs and its audit log."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from millrace.admin.run_erase import EraseRun, ErasureReach
from millrace.admin.run_job import MARGIN_MS, JobRun, Slice, run_job_slice
from millrace.admin.run_window import WindowReach, WindowRun
from millrace.definitions import Definitions
from millrace.engine.drafts import WEBHOOK, spaced_key
from millrace.engine.filtered import id_when_filtered
from millrace.engine.queue import Queue, Runtime
from millrace.http.service import ApiService
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobs
from millrace.model.audit import YEAR_SECONDS, AuditEvent, AuditLog
from millrace.model.errors import StoreUnavailable, UnknownQueue
from millrace.model.ids import keyed_message_id, random_token
from millrace.model.queue_spec import DEFAULT_TENANT, QueueSpec
from millrace.model.replay_windows import read_window

log = logging.getLogger(__name__)

#: How long the schedule's call stays with a job while others wait for their turn.
MIN_TURN_MS, MAX_TURN_MS = 2_000, 10_000
#: Starts another runner of a job; the call may be lost, since the schedule finds open jobs too.
InvokeWorker = Callable[[AdminJob], None]


#: Stands for the queue of a job that is about all of them.
NO_QUEUE = "Erasure"


def ids_of_key(definitions: Definitions, tenant: str, queue: str, key: str) -> list[str]:
    """The ids that messages of an idempotency key have: everybody's, each webhook's, those that a filter left out."""
    sources = ("", *(f"{WEBHOOK}{webhook.name}" for webhook in definitions.webhooks_of(queue)))
    ids = [keyed_message_id(tenant, queue, spaced_key(source, key)) for source in sources]
    return [*ids, *(id_when_filtered(tenant, queue, one) for one in ids)]


def nobody(_job: AdminJob) -> None:
    """Leaves the job to the schedule."""


class AdminService(ApiService):
    """One process's view of a deployment, for operators."""

    def __init__(
        self,
        runtime: Runtime,
        definitions: Definitions,
        jobs: AdminJobs,
        audit_log: AuditLog,
        invoke_worker: InvokeWorker = nobody,
        default_tenant: str = DEFAULT_TENANT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(runtime, definitions)
        self.jobs = jobs
        self.audit_log = audit_log
        self.invoke_worker = invoke_worker
        self.default_tenant = default_tenant
        self.sleep = sleep

    def run_job(self, job: AdminJob, left_ms: Callable[[], int]) -> Slice:
        """One slice of a job; its end is an audit event of whoever started it."""
        if job.kind is AdminJobKind.ERASE:
            ran = self._run_erasure(job, left_ms)
        elif job.selects:
            ran = self._run_window(job, left_ms)
        else:
            ran = self._slice(job, self.queue(job.tenant, job.queue), left_ms)
        self.runtime.credits.give_back()
        if ran.ended:
            self._note_end(ran.job)
        return ran

    def _run_erasure(self, job: AdminJob, left_ms: Callable[[], int]) -> Slice:
        """Over all queues of a tenant, those too that are defined no more and still have messages."""

        def queue(name: str) -> Queue:
            defined = name in self.definitions.queues
            return self.queue(job.tenant, name) if defined else self.runtime.queue(job.tenant, QueueSpec(name))

        def ids(name: str, key: str) -> list[str]:
            return ids_of_key(self.definitions, job.tenant, name, key)

        def make(*given: Any, **more: Any) -> EraseRun:
            run = EraseRun(*given, **more)
            run.reach = ErasureReach(queue, tuple(self.definitions.queues), ids, self.audit_log)
            return run

        return self._slice(job, queue(NO_QUEUE), left_ms, make)

    def _run_window(self, job: AdminJob, left_ms: Callable[[], int]) -> Slice:
        name = read_window(job.selects).to
        reach = WindowReach(self.queue(job.tenant, name), self.definitions.queue(name))

        def make(*given: Any, **more: Any) -> WindowRun:
            run = WindowRun(*given, **more)
            run.reach = reach
            return run

        return self._slice(job, self.queue(job.tenant, job.queue), left_ms, make)

    def _slice(
        self, job: AdminJob, queue: Queue, left_ms: Callable[[], int], make: Callable[..., JobRun] = JobRun
    ) -> Slice:
        return run_job_slice(self.jobs, queue, job, left_ms, sleep=self.sleep, make=make)

    def run_open_jobs(self, left_ms: Callable[[], int]) -> list[AdminJob]:
        """Go on with every job that has no runner: what the schedule does each minute.

        In turns, those that were looked after longest ago first: a long job, or one that fails each time, holds another
        for a turn and no longer. What is left when the time is up is the next minute's.
        """
        waiting = deque(sorted(self.jobs.list_open(), key=lambda job: (job.updated_at, job.id)))
        share = (left_ms() - MARGIN_MS) // max(1, len(waiting))
        turn_ms = max(MIN_TURN_MS, min(MAX_TURN_MS, share)) + MARGIN_MS
        ran: dict[str, AdminJob] = {}
        while waiting and left_ms() > MARGIN_MS:
            turn = self._take_turn(waiting.popleft(), left_ms, self.runtime.clock() + turn_ms)
            if turn is None:
                continue
            ran[turn.job.id] = turn.job
            if turn.more:
                waiting.append(turn.job)
        return list(ran.values())

    def _take_turn(self, job: AdminJob, left_ms: Callable[[], int], until: int) -> Slice | None:
        """One slice of a job; None where it could not go on, whatever the reason: that is no other job's."""
        try:
            return self.run_job(job, lambda: min(left_ms(), until - self.runtime.clock()))
        except (StoreUnavailable, UnknownQueue) as error:
            extra = {"action": "job_left", "job": job.id, "queue": job.queue, "code": error.code}
            log.warning("job left for later", extra=extra)
        except Exception:
            log.exception("job failed", extra={"action": "job_failed", "job": job.id, "queue": job.queue})
        return None

    def _note_end(self, job: AdminJob) -> None:
        now = self.runtime.clock()
        event = AuditEvent(
            random_token(self.runtime.entropy),
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
        self.audit_log.begin(replace(event, outcome=job.state.value, result=counts, ended_at=now))
