"""An operator's hand: pause, resume, break a claim, replay or purge one, and jobs over many. Every one is audited."""

from __future__ import annotations

from typing import Any

from millrace.admin.audited import audited
from millrace.admin.dry_run import count_dead_letters
from millrace.admin.schemas import (
    AUDIT_EVENT,
    COUNT,
    JOB,
    QUEUE_ROW,
    show_audit_event,
    show_count,
    show_job,
    show_queue_row,
)
from millrace.admin.service import AdminService
from millrace.engine.inspect import stats
from millrace.engine.operate import break_claim, pause, resume
from millrace.engine.queue import Queue
from millrace.http.fields import Flag, Record, Text, Time, Whole
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import page_of, record, text
from millrace.model.admin_jobs import KEEP_SECONDS, MAX_RATE, AdminJob, AdminJobKind, job_id
from millrace.model.audit import AuditFilter, list_audit_events
from millrace.model.errors import InvalidField, NotFound
from millrace.model.ids import random_token
from millrace.model.message import EVERY_DEAD_LETTER
from millrace.model.tokens import Scope
from millrace.pull import dead_letters
from millrace.pull.dead_letters import FILTER, dead_letter_filter
from millrace.pull.enqueue import REQUEST_KEY
from millrace.pull.queues import MESSAGE_ID, PAGE


def pause_queue(service: AdminService, call: RouteCall) -> HttpResponse:
    """Hand out nothing until it is resumed."""
    queue = _queue(service, call)
    pause(queue, call.principal.name)
    return HttpResponse(200, show_queue_row(queue, service.definitions.queue(queue.spec.name)))


def resume_queue(service: AdminService, call: RouteCall) -> HttpResponse:
    """Hand out messages again."""
    queue = _queue(service, call)
    resume(queue, call.principal.name)
    service.notify(queue)
    return HttpResponse(200, show_queue_row(queue, service.definitions.queue(queue.spec.name)))


def release_claim(service: AdminService, call: RouteCall) -> HttpResponse:
    """Take a message from whoever holds it and give it back."""
    queue, message_id = _queue(service, call), call.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("claim on message", message_id[:64])
    break_claim(queue, message_id)
    service.notify(queue)
    return HttpResponse(200, {"ok": True})


def dry_run(service: AdminService, call: RouteCall) -> HttpResponse:
    """What a job with this filter would find: how many, and the oldest of them."""
    return HttpResponse(
        200, show_count(count_dead_letters(_queue(service, call), dead_letter_filter(call.body.get("filter", {}))))
    )


def start_job(service: AdminService, call: RouteCall) -> HttpResponse:
    """Start a job; once for each Idempotency-Key."""
    queue, asked = _queue(service, call), call.body
    kind = AdminJobKind(asked["kind"])
    _check_confirmed(queue, kind, asked)
    only = EVERY_DEAD_LETTER if kind is AdminJobKind.PURGE_QUEUE else dead_letter_filter(asked.get("filter", {}))
    now = queue.now()
    key = call.headers.get("Idempotency-Key") or random_token(service.runtime.entropy)
    total, exact = _total(queue, kind, only)
    job = AdminJob(
        id=job_id(queue.tenant, queue.spec.name, key),
        tenant=queue.tenant,
        queue=queue.spec.name,
        kind=kind,
        created_at=now,
        created_by=call.principal.token_id,
        created_name=call.principal.name,
        ttl=now // 1000 + KEEP_SECONDS,
        correlation_id=call.correlation_id,
        only=only,
        rate=float(asked.get("rate", 0)),
        again=asked.get("again", False),
        total=total,
        total_exact=exact,
        updated_at=now,
    )
    kept = service.jobs.create(job)
    if kept.open:
        service.invoke_worker(kept)
    return HttpResponse(202, show_job(kept))


def _check_confirmed(queue: Queue, kind: AdminJobKind, asked: Any) -> None:
    """What cannot be undone is confirmed by typing the queue's name."""
    if kind is not AdminJobKind.REPLAY and asked.get("confirm") != queue.spec.name:
        raise InvalidField("confirm", "does not name the queue", f"{queue.spec.name!r}, to confirm the purge")


def _total(queue: Queue, kind: AdminJobKind, only: Any) -> tuple[int, bool]:
    if kind is AdminJobKind.PURGE_QUEUE:
        found = stats(queue)
        return found.depth, found.exact
    count = count_dead_letters(queue, only)
    return count.count, count.exact


def list_jobs(service: AdminService, call: RouteCall) -> HttpResponse:
    """A tenant's jobs of the last 30 days, newest first."""
    name = call.path.get("queue", "")
    if name:
        service.queue(call.tenant, name)
    found = service.jobs.list_jobs(call.tenant, name)[: call.query.get("limit", 50)]
    return HttpResponse(200, {"jobs": [show_job(job) for job in found]})


def show_one_job(service: AdminService, call: RouteCall) -> HttpResponse:
    """A job's progress."""
    queue = _queue(service, call)
    return HttpResponse(200, show_job(_known(service.jobs.get(call.tenant, queue.spec.name, _job_id(call)), call)))


def cancel_job(service: AdminService, call: RouteCall) -> HttpResponse:
    """Stop a job after the letter in hand. One that has ended stays as it is."""
    queue = _queue(service, call)
    job = _known(service.jobs.ask_cancel(call.tenant, queue.spec.name, _job_id(call), queue.now()), call)
    if job.open:
        service.invoke_worker(job)
    return HttpResponse(200, show_job(job))


def resume_job(service: AdminService, call: RouteCall) -> HttpResponse:
    """Let a cancelled or failed job go on from where it stopped. A running one is looked after at once."""
    queue = _queue(service, call)
    job = _known(service.jobs.reopen(call.tenant, queue.spec.name, _job_id(call), queue.now()), call)
    if job.open:
        service.invoke_worker(job)
    return HttpResponse(200, show_job(job))


def list_audit(service: AdminService, call: RouteCall) -> HttpResponse:
    """Who did what, when, to what, with which outcome; newest first."""
    asked = dict(call.query)
    page = {name: asked.pop(name) for name in ("limit", "cursor") if name in asked}
    times = {name: max(0, min(asked.pop(name), 9_999_999_999_999)) for name in ("since", "before") if name in asked}
    events = list_audit_events(service.audit_log, call.tenant, only=AuditFilter(**times, **asked), **page)
    return HttpResponse(200, {"events": [show_audit_event(event) for event in events.items], "next": events.next})


def _queue(service: AdminService, call: RouteCall) -> Queue:
    return service.queue(call.tenant, call.path["queue"])


def _job_id(call: RouteCall) -> str:
    """Of the form that jobs' ids have; the table would fail at others instead of not finding them."""
    if not MESSAGE_ID.fullmatch(call.path["job_id"]):
        raise NotFound("job", call.path["job_id"][:64])
    return call.path["job_id"]


def _known(job: AdminJob | None, call: RouteCall) -> AdminJob:
    if job is None:
        raise NotFound("job", _job_id(call)[:64])
    return job


_KEY = {"Idempotency-Key": REQUEST_KEY}
_FILTER = Record(FILTER)
_JOB_BODY = Record(
    {
        "kind": Text(words=tuple(AdminJobKind)),
        "filter": _FILTER,
        "rate": Whole(1, int(MAX_RATE), "Letters a second; as fast as it goes unless told otherwise."),
        "again": Flag("Replay also what was replayed before."),
        "confirm": Text(64, meaning="The queue's name, typed: for what cannot be undone."),
    },
    required=("kind",),
)
_AUDIT_QUERY = {
    "since": Time(),
    "before": Time(),
    "queue": Text(64),
    "action": Text(64),
    "token_id": Text(64),
    "outcome": Text(64),
    "subject": Text(128),
    **PAGE,
}
_UNKNOWN = ("unknown_queue",)
_PATH = "/admin/queues/{queue}"
_DEAD_LETTER = f"{_PATH}/dead-letters/{{dead_letter_id}}"
_JOB = f"{_PATH}/jobs/{{job_id}}"
_OK = record({"ok": {"type": "boolean"}})
_REPLAYED = record({"ok": {"type": "boolean"}, "new_message_id": text(), "correlation_id": text()})
_JOBS = record({"jobs": {"type": "array", "items": JOB}})
_LIMIT = {"limit": PAGE["limit"]}


def _change(method: str, path: str, name: str, summary: str, handle: Any, reply: Any, **more: Any) -> Any:
    status = 202 if name in ("admin_start_job", "admin_replay_dead_letter") else 200
    refuses = more.pop("refuses", _UNKNOWN)
    route = Route(method, path, name, summary, handle, {status: RouteReply("Done.", reply)}, Scope.OPERATE,
                  refuses=refuses, **more)  # fmt: skip
    return audited(route)


def _look(method: str, path: str, name: str, summary: str, handle: Any, schema: Any, **more: Any) -> Any:
    return Route(method, path, name, summary, handle, {200: RouteReply("Found.", schema)}, Scope.READ, **more)


ROUTES: tuple[Route[AdminService], ...] = (
    _change("POST", f"{_PATH}/pause", "admin_pause", "Hand out nothing until it is resumed.", pause_queue, QUEUE_ROW),
    _change("POST", f"{_PATH}/resume", "admin_resume", "Hand out messages again.", resume_queue, QUEUE_ROW),
    _change("POST", f"{_PATH}/messages/{{message_id}}/release", "admin_release",
            "Take a message from whoever holds it; charges no attempt.", release_claim, _OK,
            refuses=("stale_claim", *_UNKNOWN)),
    _change("POST", f"{_DEAD_LETTER}/replay", "admin_replay_dead_letter",
            "Enqueue a dead letter again, as a new message.", dead_letters.replay_one, _REPLAYED, headers=_KEY,
            refuses=("queue_full", "body_too_large", *_UNKNOWN)),
    _change("DELETE", _DEAD_LETTER, "admin_purge_dead_letter", "Forget a dead letter for good.",
            dead_letters.purge_one, _OK),
    _look("POST", f"{_PATH}/dry-run", "admin_dry_run", "What a job with this filter would find; changes nothing.",
          dry_run, COUNT, body=Record({"filter": _FILTER}), refuses=_UNKNOWN),
    _change("POST", f"{_PATH}/jobs", "admin_start_job", "Replay or purge many, as a job.", start_job, JOB,
            headers=_KEY, body=_JOB_BODY),
    _look("GET", f"{_PATH}/jobs", "admin_list_queue_jobs", "A queue's jobs, newest first.", list_jobs, _JOBS,
          query=_LIMIT, refuses=_UNKNOWN),
    _look("GET", "/admin/jobs", "admin_list_jobs", "Jobs of every queue, newest first.", list_jobs, _JOBS,
          query=_LIMIT),
    _look("GET", _JOB, "admin_show_job", "A job's progress.", show_one_job, JOB, refuses=_UNKNOWN),
    _change("POST", f"{_JOB}/cancel", "admin_cancel_job", "Stop a job after the letter in hand.", cancel_job, JOB),
    _change("POST", f"{_JOB}/resume", "admin_resume_job", "Let a stopped job go on from where it was.",
            resume_job, JOB),
    _look("GET", "/admin/audit", "admin_list_audit", "Who did what, when, to what, with which outcome.", list_audit,
          page_of("events", AUDIT_EVENT), query=_AUDIT_QUERY, refuses=("invalid_cursor",)),
)  # fmt: skip
