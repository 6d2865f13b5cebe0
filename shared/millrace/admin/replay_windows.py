"""What a job is asked to replay of the past, and how its window is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.admin.audit import LAST_TIME
from millrace.admin.service import AdminService
from millrace.http.fields import Flag, Kind, Schema, Text, Time, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.schemas import JsonObject, list_of, number, record, text, time, words
from millrace.model.admin_jobs import AdminJob, AdminJobKind
from millrace.model.errors import InvalidField
from millrace.model.replay_windows import ReplayOf, ReplayWindow, read_found, read_window

#: What may be asked of a message that is done: the rest of a filter is about errors.
OF_ANY = ("project", "correlation_id", "key")
ASKED: Mapping[str, Kind] = {
    "of": Text(words=tuple(ReplayOf), name="ReplayOf"),
    "received_from": Time("Only what was received from then on; needed for done and all."),
    "received_before": Time("Only what was received before; needed for done and all, the job's start at the latest."),
    "to": Text(64, 1, meaning="The queue to replay to; their own if not given."),
    "any_order": Flag("Accept that an ordered queue gets what is done in no order."),
    "dry_run": Flag("Count what would be replayed, and change nothing."),
}


def asked_window(service: AdminService, request: ApiRequest) -> ReplayWindow | None:
    """The window that a replay is about; None where it is about the queue's dead letters and no more was asked.

    Raises InvalidField, UnknownQueue, Forbidden where the token does not reach the queue that it goes to.
    """
    asked = request.body
    given = [name for name in ASKED if name in asked and asked[name] != ReplayOf.DEAD]
    if asked["kind"] != AdminJobKind.REPLAY and (given or "of" in asked):
        raise InvalidField((given or ["of"])[0], f"is not for {asked['kind']}", "only where messages are replayed")
    if not given:
        return None
    of, name = ReplayOf(asked.get("of", ReplayOf.DEAD)), asked.get("to", request.path["queue"])
    request.principal.require_queue(name)
    target = service.queue(request.tenant, name)
    if service.queue_of(request).spec.encrypt and not target.spec.encrypt:
        raise InvalidField("to", f"{name!r} would keep in plain what is encrypted", "a queue that encrypts too")
    begins, ends = (
        max(0, asked.get("received_from", 0)),
        max(0, min(asked.get("received_before", LAST_TIME), LAST_TIME)),
    )
    if ends <= begins:
        raise InvalidField("received_before", "does not come after received_from", "a later time")
    if of is not ReplayOf.DEAD:
        _check_done(asked, of)
        if target.spec.ordering.ordered and not asked.get("any_order"):
            problem = f"{name!r} is {target.spec.ordering}, and a window's messages that are done are met in no order"
            raise InvalidField("any_order", problem, "true, to accept that; the bulk job keeps the order of receipt")
    return ReplayWindow(of, name, begins, ends)


def _check_done(asked: Mapping[str, Any], of: ReplayOf) -> None:
    for name in ("received_from", "received_before"):
        if name not in asked:
            raise InvalidField(name, f"is missing: without a window {of} would be all that the table holds", "a time")
    for name in asked.get("filter", {}):
        if name not in OF_ANY:
            raise InvalidField(f"filter.{name}", f"does not go with {of}", ", ".join(OF_ANY))


def show_window(job: AdminJob) -> JsonObject:
    """A job's window and what it has met there; nothing for a job that has none."""
    if job.kind is not AdminJobKind.REPLAY or not job.selects:
        return {}
    window, found = read_window(job.selects), read_found(job.found)
    shown = {
        "of": window.of.value,
        "to": window.to,
        "received_from": rfc3339(window.received_from),
        "received_before": rfc3339(min(window.received_before, job.created_at)),
        "statuses": dict(found.statuses),
        "read_units": round(found.units),
        "samples": [
            {"message_id": one.id, "status": one.status, "received_at": rfc3339(one.received_at)}
            for one in found.samples
        ],
    }
    return {"window": shown}


_SAMPLE = record("WindowSample", {"message_id": text(), "status": text(), "received_at": time()})
WINDOW: Schema = record(
    "ReplayWindow",
    {
        "of": words("ReplayOf", ReplayOf),
        "to": text(),
        "received_from": time(null=True),
        "received_before": time(),
        "statuses": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "Messages that it met, by status: none is replayed that is not done or dead.",
        },
        "read_units": number("DynamoDB's, to find them. A run costs as many, and one for each 4 KB that it replays."),
        "samples": list_of(_SAMPLE),
    },
)
