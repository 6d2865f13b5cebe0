"""Erasures: forget all that belongs to a key, a project or a tenant, or one message. Every one is audited.

The audit event, and the job once it is done, name what was erased by its hash: whoever knows it can tell that it was
this one, and nobody else learns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.admin.audit import audited
from millrace.admin.jobs import JOB_MEMBERS, known_job, show_job
from millrace.admin.service import AdminService
from millrace.http.fields import Flag, Record, Text
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import MESSAGE_ID, PAGE, REQUEST_KEY, JsonObject, list_of, record, text
from millrace.model.admin_jobs import KEEP_SECONDS, AdminJob, AdminJobKind, job_id
from millrace.model.erasures import EraseBy, Selection, read_selection
from millrace.model.errors import InvalidField
from millrace.model.ids import random_token
from millrace.model.tokens import Scope

#: What an erasure does not reach, and for how long it stays there.
REMAINS = (
    "The id, times and claim version of each message, until its ttl: they refuse repeats and late answers.",
    "Point-in-time recovery of both tables: up to 35 days.",
    "Exports and backups of the tables that you made: until you delete them.",
    "The lake: until the bulk job updates it the next time; copies of its files as long as you keep them.",
    "CloudWatch logs: LogDays. They hold ids, and with LogHistory hashes of keys; no bodies, keys or texts of errors.",
    "A queue's packing dictionary: pieces of text that 20 of 300 messages shared (one sender's too), for 27 months.",
    "Counters of each queue, for good, and their samples: 15 days. Numbers, and ids of the last seven that were done.",
    "Uploads that no message was made of: two days.",
    "What a message that was done was replayed as: its `origin` is the message. Erase it by key, project or its id.",
    "S3: older versions of large bodies, if you turned versioning on.",
    "Filters of other jobs that name a key: 30 days.",
    "Whatever targets, consumers and your own commands have made of it.",
)
#: In the path of the jobs: an erasure is about every queue.
EVERY_QUEUE = ""


def start_erasure(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Start an erasure; once for each Idempotency-Key."""
    asked, tenant = request.body, request.tenant
    selection = selected(asked)
    if selection.queue:
        service.queue(tenant, selection.queue)
    dry_run = asked.get("dry_run", False)
    if not dry_run and asked.get("confirm") != tenant:
        raise InvalidField("confirm", "does not name the tenant", f"{tenant!r}, to confirm what cannot be undone")
    now = service.runtime.clock()
    key = request.headers.get("Idempotency-Key") or random_token(service.runtime.entropy)
    kept = service.jobs.create(
        AdminJob(
            id=job_id(tenant, EVERY_QUEUE, key),
            tenant=tenant,
            queue=EVERY_QUEUE,
            kind=AdminJobKind.ERASE,
            created_at=now,
            created_by=request.principal.token_id,
            created_name=request.principal.name,
            ttl=now // 1000 + KEEP_SECONDS,
            correlation_id=request.correlation_id,
            selects=selection.written(),
            dry_run=dry_run,
            total_exact=False,
            updated_at=now,
        )
    )
    if kept.open:
        service.invoke_worker(kept)
    return HttpResponse(202, show_erasure(kept))


def selected(asked: Mapping[str, Any]) -> Selection:
    """What the request selects: exactly one of its ways."""
    ways = [by for by in EraseBy if asked.get(by)]
    if len(ways) != 1:
        allowed = f"exactly one of {', '.join(EraseBy)}"
        raise InvalidField("body", f"selects by {', '.join(ways) or 'nothing'}", allowed)
    value = "" if ways[0] is EraseBy.TENANT else str(asked[ways[0]])
    if ways[0] is EraseBy.MESSAGE_ID and not MESSAGE_ID.fullmatch(value):
        raise InvalidField("message_id", f"{value[:40]!r} is no id of a message", "32 letters and digits")
    return Selection(ways[0], value, asked.get("queue", ""))


def list_erasures(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A tenant's erasures of the last 30 days, newest first."""
    found = [job for job in service.jobs.list_jobs(request.tenant) if job.kind is AdminJobKind.ERASE]
    return HttpResponse(200, {"erasures": [show_erasure(job) for job in found[: request.query.get("limit", 50)]]})


def show_one_erasure(service: AdminService, request: ApiRequest) -> HttpResponse:
    """An erasure's progress."""
    return HttpResponse(200, show_erasure(known_job(service.jobs.get, request, EVERY_QUEUE)))


def cancel_erasure(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Stop an erasure after the message in hand. What is erased stays erased."""
    return _changed(service, request, known_job(service.jobs.ask_cancel, request, EVERY_QUEUE, service.runtime.clock()))


def resume_erasure(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Let a stopped erasure go on from where it was."""
    return _changed(service, request, known_job(service.jobs.reopen, request, EVERY_QUEUE, service.runtime.clock()))


def _changed(service: AdminService, _request: ApiRequest, job: AdminJob) -> HttpResponse:
    if job.open:
        service.invoke_worker(job)
    return HttpResponse(200, show_erasure(job))


def show_erasure(job: AdminJob) -> JsonObject:
    selection = read_selection(job.selects)
    selects = {selection.by.value: selection.value or True, **({"queue": selection.queue} if selection.queue else {})}
    return {**show_job(job), "selects": selects, "remains": list(REMAINS)}


def told(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the audit log tells of a request: whom it names by a hash."""
    ways = [by for by in EraseBy if asked.get(by)]
    return {**asked, **{by: Selection(by, str(asked[by])).hidden().value for by in ways if by is not EraseBy.TENANT}}


_BODY = Record(
    {
        EraseBy.KEY: Text(128, 1, meaning="Messages of this key, as their queue orders or shares by."),
        EraseBy.PROJECT: Text(64, 1, meaning="Messages of this project."),
        EraseBy.MESSAGE_ID: Text(64, 1, meaning="One message, and what it was replayed as."),
        EraseBy.IDEMPOTENCY_KEY: Text(512, 1, meaning="The same, by its sender's key."),
        EraseBy.TENANT: Flag("All messages of the tenant."),
        "queue": Text(64, 1, meaning="Only in this queue."),
        "dry_run": Flag("Count what would be erased, and change nothing."),
        "confirm": Text(64, meaning="The tenant's name, to confirm what cannot be undone; not for a dry run."),
    },
    name="StartErasure",
    example={"key": "customer/7", "dry_run": True},
)
_ERASURE = record(
    "ErasureJob",
    {
        **JOB_MEMBERS,
        "selects": {"type": "object", "description": "What it is about; once it is done, by a hash."},
        "remains": list_of(text("What an erasure does not reach, and how long it stays.")),
    },
)
_LIST = RouteReply("The newest erasures.", record("Erasures", {"erasures": list_of(_ERASURE)}))
_ONE = RouteReply("The erasure.", _ERASURE)
_PATH = "/admin/erasures"
_READ, _OPERATE = (Scope.READ,), (Scope.OPERATE,)
ROUTES: tuple[Route[AdminService], ...] = (
    audited(Route("POST", _PATH, "start_erasure", "jobs",
                  "Forget all that belongs to a key, a project or the tenant, or one message.", start_erasure,
                  {202: RouteReply("The erasure is started.", _ERASURE)}, _OPERATE, headers=REQUEST_KEY, body=_BODY,
                  refuses=("unknown_queue",)), told),
    Route("GET", _PATH, "list_erasures", "jobs", "List the erasures, newest first.", list_erasures, {200: _LIST},
          _READ, query={"limit": PAGE["limit"]}),
    Route("GET", f"{_PATH}/{{job_id}}", "show_erasure", "jobs", "Show an erasure's progress.", show_one_erasure,
          {200: _ONE}, _READ),
    audited(Route("POST", f"{_PATH}/{{job_id}}/cancel", "cancel_erasure", "jobs", "Stop an erasure.", cancel_erasure,
                  {200: _ONE}, _OPERATE)),
    audited(Route("POST", f"{_PATH}/{{job_id}}/resume", "resume_erasure", "jobs",
                  "Let a stopped erasure go on from where it was.", resume_erasure, {200: _ONE}, _OPERATE)),
)  # fmt: skip
