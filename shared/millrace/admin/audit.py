"""The audit log: an event for every change, written before the change and completed after it; and its list."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from millrace.admin.service import AdminService
from millrace.http.fields import Kind, Text, Time, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import PAGE, JsonObject, page_of, record, show_page, text, time
from millrace.model.audit import YEAR_SECONDS, AuditEvent, AuditFilter, list_audit_events
from millrace.model.errors import MillraceError, StoreUnavailable
from millrace.model.ids import random_token
from millrace.model.tokens import Scope

#: Of what was asked for; a longer request is cut.
DETAIL_CHARACTERS = 1_000
LAST_TIME = 9_999_999_999_999
log = logging.getLogger(__name__)


def audited(route: Route[AdminService], told: Callable[[Any], Any] = lambda body: body) -> Route[AdminService]:
    """The route with an audit event around it. Where the event cannot be written, nothing is changed.

    `told` says what of the request's body the event may tell.
    """
    handle = route.handle

    def handle_audited(service: AdminService, request: ApiRequest) -> HttpResponse:
        event = _event(service, request, route.name, told(request.body))
        service.audit_log.begin(event)
        try:
            response = handle(service, request)
        except MillraceError as error:
            _end(service, event, error.code)
            raise
        except BaseException:
            _end(service, event, "internal")
            raise
        _end(service, event, "ok", _result(response))
        return response

    return replace(route, handle=handle_audited)


def _event(service: AdminService, request: ApiRequest, action: str, told: Any) -> AuditEvent:
    now = service.runtime.clock()
    subject = next((value for name, value in request.path.items() if name != "queue"), "")
    detail = json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=str) if told else ""
    return AuditEvent(
        random_token(service.runtime.entropy),
        now,
        request.tenant,
        request.principal.token_id,
        request.principal.name,
        action,
        now // 1000 + YEAR_SECONDS,
        queue=request.path.get("queue", "")[:64],
        subject=subject[:128],
        detail=detail[:DETAIL_CHARACTERS],
        correlation_id=request.correlation_id,
        source_ip=request.source_ip,
    )


def _result(response: HttpResponse) -> str:
    """What the change made: a message, a job."""
    document = response.document if isinstance(response.document, dict) else {}
    return str(document.get("new_message_id") or document.get("job_id") or "")


def _end(service: AdminService, event: AuditEvent, outcome: str, result: str = "") -> None:
    """The change has happened or not: a log that does not answer now must not make the answer wrong."""
    try:
        service.audit_log.end(replace(event, outcome=outcome, result=result, ended_at=service.runtime.clock()))
    except StoreUnavailable:
        extra = {"action": "audit_outcome_lost", "event": event.id, "outcome": outcome}
        log.exception("the outcome of an audit event was not written", extra=extra)


def list_events(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A page of the tenant's audit events, newest first."""
    request.principal.require_queue(request.query.get("queue"))
    asked = {name: value for name, value in request.query.items() if name not in PAGE}
    times = {name: max(0, min(asked.pop(name), LAST_TIME)) for name in ("since", "before") if name in asked}
    only = AuditFilter(**times, **asked)
    page = list_audit_events(service.audit_log, request.tenant, only=only, **request.page)
    return show_page("events", page, show_audit_event)


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


_EVENT = record(
    "AuditEvent",
    {
        "id": text(),
        "at": time(),
        "token_id": text(),
        "name": text("Name of the token."),
        "action": text("The operation's id in this document, or `job_ended`."),
        "queue": text(),
        "subject": text("The message, dead letter or job."),
        "detail": text("What was asked for."),
        "outcome": text("`started`, `ok`, the state of a job that ended, or the code of the problem."),
        "result": text("The message or job that the change made."),
        "ended_at": time(null=True),
        "correlation_id": text(),
        "source_ip": text(),
    },
)
_QUERY: Mapping[str, Kind] = {
    "since": Time(),
    "before": Time(),
    "queue": Text(64),
    "action": Text(64),
    "token_id": Text(64),
    "outcome": Text(64),
    "subject": Text(128),
    **PAGE,
}
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/audit", "list_audit_events", "audit", "List the audit events, newest first.", list_events,
          {200: RouteReply("A page of events.", page_of("AuditEvents", "events", _EVENT))}, (Scope.READ,),
          query=_QUERY, filters_queues=True, refuses=("invalid_cursor",)),
)  # fmt: skip
