"""Jobs for operators: replay or purge many messages in the background. Every change is audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millrace.admin.audit import audited
from millrace.admin.dead_letters import FILTER_RECORD, count_dead_letters, dead_letter_filter
from millrace.admin.replay_windows import ASKED, WINDOW, asked_window, show_window
from millrace.admin.service import AdminService
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.http.fields import Flag, Record, Schema, Text, Whole, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import (
    MESSAGE_ID,
    PAGE,
    REQUEST_KEY,
    JsonObject,
    flag,
    list_of,
    number,
    record,
    text,
    time,
    words,
)
from millrace.model.admin_jobs import KEEP_SECONDS, MAX_RATE, AdminJob, AdminJobKind, AdminJobState, job_id
from millrace.model.errors import InvalidField, NotFound
from millrace.model.ids import random_token
from millrace.model.message import EVERY_DEAD_LETTER, DeadLetterFilter
from millrace.model.tokens import Scope


def start_job(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Start a job; once for each Idempotency-Key."""
    queue, asked = service.queue_of(request), request.body
    kind = AdminJobKind(asked["kind"])
    _check_confirmed(queue, kind, asked)
    only = EVERY_DEAD_LETTER if kind is AdminJobKind.PURGE_QUEUE else dead_letter_filter(asked.get("filter", {}))
    window = asked_window(service, request)
    now = queue.now()
    key = request.headers.get("Idempotency-Key") or random_token(service.runtime.entropy)
    total, exact = (0, False) if window else _total(queue, kind, only)
    job = AdminJob(
        id=job_id(queue.tenant, queue.spec.name, key),
        tenant=queue.tenant,
        queue=queue.spec.name,
        kind=kind,
        created_at=now,
        created_by=request.principal.token_id,
        created_name=request.principal.name,
        ttl=now // 1000 + KEEP_SECONDS,
        correlation_id=request.correlation_id,
        only=only,
        rate=float(asked.get("rate", 0)),
        again=asked.get("again", False),
        selects=window.written() if window else "",
        dry_run=asked.get("dry_run", False),
        total=total,
        total_exact=exact,
        updated_at=now,
    )
    kept = service.jobs.create(job)
    if kept.open:
        service.invoke_worker(kept)
    return HttpResponse(202, show_queue_job(kept))


def _check_confirmed(queue: Queue, kind: AdminJobKind, asked: Mapping[str, Any]) -> None:
    """What cannot be undone is confirmed by typing the queue's name."""
    if kind is not AdminJobKind.REPLAY and asked.get("confirm") != queue.spec.name:
        raise InvalidField("confirm", "does not name the queue", f"{queue.spec.name!r}, to confirm the purge")


def _total(queue: Queue, kind: AdminJobKind, only: DeadLetterFilter) -> tuple[int, bool]:
    if kind is AdminJobKind.PURGE_QUEUE:
        found = stats(queue)
        return found.depth, found.exact
    count = count_dead_letters(queue, only)
    return count.count, count.exact


def list_jobs(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A tenant's jobs of the last 30 days, newest first."""
    name = request.path.get("queue", "")
    if name:
        service.queue(request.tenant, name)
    held = service.jobs.list_jobs(request.tenant, name)
    found = [job for job in held if request.principal.reaches(job.queue)][: request.query.get("limit", 50)]
    return HttpResponse(200, {"jobs": [show_queue_job(job) for job in found]})


def show_one_job(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A job's progress."""
    queue = service.queue_of(request)
    return HttpResponse(200, show_queue_job(known_job(service.jobs.get, request, queue.spec.name)))


def cancel_job(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Stop a job after the dead letter in hand. One that has ended stays as it is."""
    queue = service.queue_of(request)
    job = known_job(service.jobs.ask_cancel, request, queue.spec.name, queue.now())
    if job.open:
        service.invoke_worker(job)
    return HttpResponse(200, show_queue_job(job))


def resume_job(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Let a cancelled or failed job go on from where it stopped. A running one gets a runner at once."""
    queue = service.queue_of(request)
    job = known_job(service.jobs.reopen, request, queue.spec.name, queue.now())
    if job.open:
        service.invoke_worker(job)
    return HttpResponse(200, show_queue_job(job))


def known_job(find: Callable[..., AdminJob | None], request: ApiRequest, queue: str, *more: Any) -> AdminJob:
    """The job that the path names, as `find` gives it. Raises NotFound."""
    return _known(find(request.tenant, queue, _job_id(request), *more), request)


def _job_id(request: ApiRequest) -> str:
    """Of the form that jobs' ids have; the table would fail at others instead of not finding them."""
    if not MESSAGE_ID.fullmatch(request.path["job_id"]):
        raise NotFound("job", request.path["job_id"][:64])
    return request.path["job_id"]


def _known(job: AdminJob | None, request: ApiRequest) -> AdminJob:
    if job is None:
        raise NotFound("job", _job_id(request)[:64])
    return job


def show_queue_job(job: AdminJob) -> JsonObject:
    return {**show_job(job), **show_window(job)}


def show_job(job: AdminJob) -> JsonObject:
    only = {
        "failed_from": rfc3339(job.only.failed_from),
        "failed_before": rfc3339(job.bound),
        "reason": job.only.reason.value if job.only.reason else None,
        "error": job.only.error_text or None,
        "project": job.only.project,
        "correlation_id": job.only.correlation_id,
        "key": job.only.key,
        "fingerprint": job.only.fingerprint,
        "replayed": job.only.replayed,
    }
    return {
        "job_id": job.id,
        "queue": job.queue,
        "kind": job.kind.value,
        "state": "cancelling" if job.open and job.cancel_asked else job.state.value,
        "total": job.total,
        "total_exact": job.total_exact,
        "done": job.done,
        "skipped": job.skipped,
        "failed": job.failed,
        "failures": job.failures.splitlines(),
        "note": job.note,
        "filter": {name: value for name, value in only.items() if value is not None},
        "rate": job.rate or None,
        "again": job.again,
        "dry_run": job.dry_run,
        "created_at": rfc3339(job.created_at),
        "created_by": job.created_name,
        "token_id": job.created_by,
        "updated_at": rfc3339(job.updated_at),
        "finished_at": rfc3339(job.finished_at),
        "correlation_id": job.correlation_id,
    }


#: Those that are about one queue.
QUEUE_JOBS = tuple(kind for kind in AdminJobKind if kind is not AdminJobKind.ERASE)
_JOB_BODY = Record(
    {
        "kind": Text(words=QUEUE_JOBS, name="QueueJobKind"),
        "filter": FILTER_RECORD,
        "rate": Whole(1, int(MAX_RATE), "Messages a second; as fast as possible unless given."),
        "again": Flag("Also replay dead letters that were replayed before."),
        **ASKED,
        "confirm": Text(64, meaning="The queue's name, to confirm what cannot be undone: needed to purge."),
    },
    required=("kind",),
    meaning="A replay is `of` dead letters unless it says otherwise.",
    name="StartJob",
    example={"kind": "replay", "filter": {"error": "no route to host"}, "rate": 20},
)
JOB_MEMBERS: dict[str, Schema] = {
    "job_id": text(),
    "queue": text("Empty for an erasure, which is about all of them."),
    "kind": words("JobKind", AdminJobKind),
    "state": words("JobState", (*AdminJobState, "cancelling")),
    "total": number("What it found when it started."),
    "total_exact": flag(),
    "done": number("Replayed or purged."),
    "skipped": number("Replayed before by something else, or held by a worker."),
    "failed": number(),
    "failures": list_of(text()),
    "note": text("What it waits for."),
    "filter": {"type": "object"},
    "rate": {"type": ["number", "null"], "description": "Messages a second; null for as fast as possible."},
    "again": flag("Also dead letters that were replayed before."),
    "dry_run": flag("It only counts: `done` is how many there would be."),
    "created_at": time(),
    "created_by": text(),
    "token_id": text(),
    "updated_at": time(null=True),
    "finished_at": time(null=True),
    "correlation_id": text(),
}
_JOB = record("Job", {**JOB_MEMBERS, "window": WINDOW}, optional=("window",))
_JOBS = RouteReply("The newest jobs.", record("Jobs", {"jobs": list_of(_JOB)}))
_ONE = RouteReply("The job.", _JOB)
_LIMIT = {"limit": PAGE["limit"]}
_UNKNOWN = ("unknown_queue",)
_PATH = "/admin/queues/{queue}/jobs"
_READ, _OPERATE = (Scope.READ,), (Scope.OPERATE,)
ROUTES: tuple[Route[AdminService], ...] = (
    audited(Route("POST", _PATH, "start_job", "jobs", "Start a job that replays or purges many messages.", start_job,
                  {202: RouteReply("The job is started.", _JOB)}, _OPERATE, headers=REQUEST_KEY, body=_JOB_BODY,
                  refuses=_UNKNOWN)),
    Route("GET", _PATH, "list_queue_jobs", "jobs", "List a queue's jobs, newest first.", list_jobs, {200: _JOBS},
          _READ, query=_LIMIT, refuses=_UNKNOWN),
    Route("GET", "/admin/jobs", "list_jobs", "jobs", "List the jobs of every queue, newest first.", list_jobs,
          {200: _JOBS}, _READ, query=_LIMIT, filters_queues=True),
    Route("GET", f"{_PATH}/{{job_id}}", "show_job", "jobs", "Show a job's progress.", show_one_job, {200: _ONE},
          _READ, refuses=_UNKNOWN),
    audited(Route("POST", f"{_PATH}/{{job_id}}/cancel", "cancel_job", "jobs", "Stop a job.", cancel_job, {200: _ONE},
                  _OPERATE, refuses=_UNKNOWN)),
    audited(Route("POST", f"{_PATH}/{{job_id}}/resume", "resume_job", "jobs",
                  "Let a stopped job go on from where it was.", resume_job, {200: _ONE}, _OPERATE, refuses=_UNKNOWN)),
)  # fmt: skip
