"""Schedules for operators: what each enqueues and when, its last run and its next."""

from __future__ import annotations

from millrace.admin.service import AdminService
from millrace.admission.schedules import progress_of, tick_message_id
from millrace.definitions import ScheduleDefinition
from millrace.definitions.model import CatchUp
from millrace.http.fields import rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import JsonObject, list_of, or_null, record, text, time, words
from millrace.model.tokens import Scope


def list_schedules(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Every schedule of the tenant: one read for each."""
    known = [service.definitions.schedule(name) for name in sorted(service.definitions.schedules)]
    own = [one for one in known if (one.tenant or service.default_tenant) == request.tenant]
    reached = [one for one in own if request.principal.reaches(one.queue)]
    return HttpResponse(200, {"schedules": [_show(service, request.tenant, one) for one in reached]})


def _show(service: AdminService, tenant: str, schedule: ScheduleDefinition) -> JsonObject:
    progress = progress_of(service.runtime.store, tenant, schedule)
    last = None
    if progress.last:
        last = {"tick": rfc3339(progress.last), "message_id": tick_message_id(tenant, schedule, progress.last)}
    return {
        "name": schedule.name,
        "app": schedule.app,
        "queue": schedule.queue,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "catch_up": schedule.catch_up.value,
        "last_run": last,
        "next_run": rfc3339(progress.next),
    }


_LAST = record("ScheduledRun", {"tick": time(), "message_id": text()})
_SCHEDULE = record(
    "Schedule",
    {
        "name": text(),
        "app": text(),
        "queue": text(),
        "cron": text(),
        "timezone": text(),
        "catch_up": words("CatchUp", CatchUp),
        "last_run": or_null(_LAST),
        "next_run": time("Null until the first sweep has seen it.", null=True),
    },
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/schedules", "list_schedules", "operations",
          "List the schedules: what each enqueues and when, its last run and its next.", list_schedules,
          {200: RouteReply("Every schedule.", record("Schedules", {"schedules": list_of(_SCHEDULE)}))}, (Scope.READ,),
          filters_queues=True),
)  # fmt: skip
