"""Queues, jobs and deeds as answers show them, and the schemas that describe them."""

from __future__ import annotations

from typing import Any

from millrace.admin.dry_run import Count
from millrace.definitions import QueueDefinition
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus
from millrace.http.fields import Schema, rfc3339
from millrace.http.schemas import (
    ATTEMPT,
    LETTER,
    LETTER_MEMBERS,
    STATUS,
    bytes_schemas,
    number,
    record,
    show_dead_letter,
    text,
    time,
)
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState
from millrace.model.audit import AuditEvent

JsonObject = dict[str, Any]


def _flag(meaning: str = "") -> Schema:
    return {"type": "boolean", "description": meaning} if meaning else {"type": "boolean"}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _counts(meaning: str = "") -> Schema:
    return {"type": "object", "additionalProperties": {"type": "integer"}, "description": meaning}


WHO = record({"token_id": text(), "name": text(), "tenant": text(), "scopes": _list(text()), "tenants": _list(text())})
QUEUE_MEMBERS: dict[str, Schema] = {
    "name": text(),
    "app": text(),
    "ordering": text(),
    "depth": number("Unfinished messages."),
    "max_depth": number(),
    "ready": number(),
    "scheduled": number("Delayed, or backing off."),
    "in_flight": number(),
    "oldest_age_ms": number("Of the oldest unfinished message."),
    "dead_letters": number(),
    "arrived_per_minute": {"type": "number"},
    "done_per_minute": {"type": "number"},
    "paused": _flag(),
    "paused_at": time(null=True),
    "paused_by": text(),
    "breakers": _list(record({"target": text(), "until": time(null=True), "failed_probes": number()})),
    "rate_per_second": {"type": ["number", "null"], "description": "Starts a second over all workers."},
    "paced_until": time("The rate is used up until then.", null=True),
    "max_concurrency": number(),
    "exact": _flag("False when the queue is too deep to count."),
    "by_project": _counts("Of the messages counted."),
    "totals": _counts("Since ever."),
}
QUEUE_ROW = record(QUEUE_MEMBERS)
QUEUE = record(
    {
        **QUEUE_MEMBERS,
        "definition": _list(record({"name": text(), "says": text()})),
        "retries": _list(record({"attempt": number(), "wait": text()})),
    }
)


def show_queue_row(queue: Queue, definition: QueueDefinition) -> JsonObject:
    """A queue in numbers: a bounded number of reads, however deep it is."""
    found, state, spec, now = stats(queue), queue.state(), queue.spec, queue.now()
    breakers = sorted(state.breakers.items())
    return {
        "name": spec.name,
        "app": definition.app,
        "ordering": spec.ordering.value,
        "depth": found.depth,
        "max_depth": spec.retention.max_depth,
        "ready": found.ready,
        "scheduled": found.scheduled,
        "in_flight": found.in_flight,
        "oldest_age_ms": found.oldest_age_ms,
        "dead_letters": found.dead_letters,
        "arrived_per_minute": found.arrived_per_minute,
        "done_per_minute": found.done_per_minute,
        "paused": found.paused,
        "paused_at": rfc3339(state.paused_at),
        "paused_by": state.paused_by if found.paused else "",
        "breakers": [{"target": t, "until": rfc3339(o.until), "failed_probes": o.level} for t, o in breakers],
        "rate_per_second": spec.rate_per_second,
        "paced_until": rfc3339(state.pace_at) if state.pace_at > now else None,
        "max_concurrency": spec.max_concurrency,
        "exact": found.exact,
        "by_project": {project: count for project, count in sorted(found.by_project.items()) if project},
        "totals": dict(found.totals),
    }


MOMENT = record(
    {
        "at": time(null=True),
        "what": {
            "type": "string",
            "enum": ["received", "claimed", "failed", "scheduled", "done", "dead", "purged", "replayed"],
        },
        "who": text(),
        "attempt": number(null=True),
        "error_type": text(),
        "error": text(),
        "message_id": text("The message that it leads to.", null=True),
    }
)
_BODY: dict[str, Schema] = {
    **bytes_schemas("body", "The body"),
    "body_omitted": _flag("Too large to be shown: download it."),
}
MESSAGE = record(
    {
        **STATUS["properties"],
        "dead_letter": {"anyOf": [LETTER, {"type": "null"}]},
        "timeline": _list(MOMENT),
        **_BODY,
    },
    optional=("result", "result_base64", "body", "body_base64"),
)
WHOLE_DEAD_LETTER = record(
    {**LETTER_MEMBERS, "history": _list(ATTEMPT), **_BODY},
    optional=("body", "body_base64"),
)
FOUND = record(
    {
        "found": _list(
            record(
                {
                    "queue": text(),
                    "message_id": text(),
                    "status": {"type": "string", "enum": list(MessageStatus)},
                    "correlation_id": text(),
                    "at": time(),
                    "dead_letter_id": text(null=True),
                }
            )
        ),
        "complete": _flag("False when there was more to look through than one answer allows."),
    }
)
COUNT = record(
    {
        "count": number("Dead letters that match."),
        "exact": _flag("False when there was too much to count."),
        "replayed": number("Of them, replayed before: left out unless asked for."),
        "by_error": _counts(),
        "oldest_at": time(null=True),
        "newest_at": time(null=True),
        "sample": _list(LETTER),
    }
)


def show_count(count: Count) -> JsonObject:
    return {
        "count": count.count,
        "exact": count.exact,
        "replayed": count.replayed,
        "by_error": dict(count.by_error),
        "oldest_at": rfc3339(count.oldest_at),
        "newest_at": rfc3339(count.newest_at),
        "sample": [show_dead_letter(dead_letter) for dead_letter in count.sample],
    }


JOB = record(
    {
        "job_id": text(),
        "queue": text(),
        "kind": {"type": "string", "enum": list(AdminJobKind)},
        "state": {"type": "string", "enum": [*AdminJobState, "cancelling"]},
        "total": number("What it found when it started."),
        "total_exact": _flag(),
        "done": number("Replayed or purged."),
        "skipped": number("Replayed before by something else, or held by a worker."),
        "failed": number(),
        "failures": _list(text()),
        "note": text("What it waits for."),
        "filter": {"type": "object"},
        "rate": {"type": ["number", "null"], "description": "A second; null: as fast as it goes."},
        "again": _flag("Also letters that were replayed before."),
        "created_at": time(),
        "created_by": text(),
        "token_id": text(),
        "updated_at": time(null=True),
        "finished_at": time(null=True),
        "correlation_id": text(),
    }
)


def show_job(job: AdminJob) -> JsonObject:
    only = {
        "failed_from": rfc3339(job.only.failed_from),
        "failed_before": rfc3339(job.bound),
        "reason": job.only.reason.value if job.only.reason else None,
        "error": job.only.error_text or None,
        "project": job.only.project,
        "correlation_id": job.only.correlation_id,
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
        "created_at": rfc3339(job.created_at),
        "created_by": job.created_name,
        "token_id": job.created_by,
        "updated_at": rfc3339(job.updated_at),
        "finished_at": rfc3339(job.finished_at),
        "correlation_id": job.correlation_id,
    }


AUDIT_EVENT = record(
    {
        "id": text(),
        "at": time(),
        "token_id": text(),
        "name": text("Of the token."),
        "action": text(),
        "queue": text(),
        "subject": text("Message, dead letter or job."),
        "detail": text("What was asked for."),
        "outcome": text("`started`, `ok`, a job's end, or the code of the problem."),
        "result": text(),
        "ended_at": time(null=True),
        "correlation_id": text(),
        "source_ip": text(),
    }
)


def show_audit_event(event: AuditEvent) -> JsonObject:
    return {
        "id": event.id,
        "at": rfc3339(event.at),
        "token_id": event.token_id,
        "name": event.name,
        "action": event.action,
        "queue": event.queue,
        "subject": event.subject,
        "detail": event.detail,
        "outcome": event.outcome,
        "result": event.result,
        "ended_at": rfc3339(event.ended_at),
        "correlation_id": event.correlation_id,
        "source_ip": event.source_ip,
    }
