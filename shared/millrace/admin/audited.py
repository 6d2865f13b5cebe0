"""Every change leaves a deed: written before it, completed after it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TypeVar

from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall
from millrace.model.audit import YEAR_SECONDS, AuditEvent, AuditLog
from millrace.model.errors import MillraceError, StoreUnavailable
from millrace.model.ids import random_token
from millrace.pull.service import Service

#: Of what was asked for; a longer request is cut.
DETAIL_CHARACTERS = 1_000
S = TypeVar("S", bound=Service)
log = logging.getLogger(__name__)


def audited(route: Route[S]) -> Route[S]:
    """The route with a deed around it. Where the deed cannot be written, nothing is done.

    A service without a trail, as a program may embed one, keeps none.
    """
    handle = route.handle

    def handle_audited(service: S, call: RouteCall) -> HttpResponse:
        audit_log = service.audit_log
        if audit_log is None:
            return handle(service, call)
        event = _event(service, call, route.name)
        audit_log.begin(event)
        try:
            answer = handle(service, call)
        except MillraceError as error:
            _end(audit_log, service, event, error.code)
            raise
        except BaseException:
            _end(audit_log, service, event, "internal")
            raise
        _end(audit_log, service, event, "ok", _result(answer))
        return answer

    return replace(route, handle=handle_audited)


def _event(service: Service, call: RouteCall, action: str) -> AuditEvent:
    now = service.runtime.clock()
    subject = next((text for name, text in call.path.items() if name != "queue"), "")
    detail = json.dumps(call.body, ensure_ascii=False, separators=(",", ":"), default=str) if call.body else ""
    return AuditEvent(
        random_token(service.runtime.entropy),
        now,
        call.tenant,
        call.principal.token_id,
        call.principal.name,
        action,
        now // 1000 + YEAR_SECONDS,
        queue=call.path.get("queue", "")[:64],
        subject=subject[:128],
        detail=detail[:DETAIL_CHARACTERS],
        correlation_id=call.correlation_id,
        source_ip=call.request.source_ip,
    )


def _result(answer: HttpResponse) -> str:
    """What the change made: a message, a job."""
    document = answer.document if isinstance(answer.document, dict) else {}
    return str(document.get("new_message_id") or document.get("job_id") or "")


def _end(audit_log: AuditLog, service: Service, event: AuditEvent, outcome: str, result: str = "") -> None:
    """The change has happened or not; a trail that does not answer now must not turn the answer into a lie."""
    try:
        audit_log.end(replace(event, outcome=outcome, result=result, ended_at=service.runtime.clock()))
    except StoreUnavailable:
        extra = {"action": "audit_outcome_lost", "event": event.id, "outcome": outcome}
        log.exception("the outcome of a deed was not written", extra=extra)
