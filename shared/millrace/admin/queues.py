"""Queues for operators: in numbers, their messages and claims; pause and resume, and breaking a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.admin.audit import audited
from millrace.admin.service import AdminService
from millrace.admin.standing_still import STANDING_STILL, breaker_in_words, reasons
from millrace.definitions.explain import describe_wait, limits, timetable
from millrace.engine.counters import flush
from millrace.engine.inspect import EVERY_LANE, LANES, count_dead, list_by_status, list_claims, list_entries, stats
from millrace.engine.operate import break_claim, cancel_message, pause, reset_breaker, resume
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus
from millrace.http.fields import Flag, Record, Schema, Text, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import (
    ENTRY,
    MESSAGE_ID,
    OK,
    PAGE,
    JsonObject,
    flag,
    list_of,
    number,
    page_of,
    record,
    show_entry,
    show_page,
    text,
    time,
    words,
)
from millrace.model.errors import NotFound
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import BreakerState
from millrace.model.tokens import Scope


def who_am_i(_service: AdminService, request: ApiRequest) -> HttpResponse:
    """The token's own reach."""
    principal = request.principal
    shown = {"token_id": principal.token_id, "name": principal.name, "tenant": request.tenant}
    reach = {"tenants": list(principal.tenants), "queues": list(principal.queues)}
    return HttpResponse(200, {**shown, "scopes": sorted(principal.scopes), **reach})


def list_stats(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Every queue in numbers."""
    queues = [
        service.queue(request.tenant, name) for name in filter(request.principal.reaches, service.definitions.queues)
    ]
    return HttpResponse(200, {"queues": [show_stats(service, queue) for queue in queues]})


def show_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """One queue in numbers, and its definition as people read it."""
    queue = service.queue_of(request)
    delivery = queue.spec.delivery
    tries = [{"attempt": a.number, "wait": describe_wait(a, delivery.jitter)} for a in timetable(delivery)[:50]]
    settings = limits(service.definitions.queue(queue.spec.name))
    definition = [{"name": name, "says": sentence} for name, sentence in settings]
    return HttpResponse(200, {**show_stats(service, queue), "definition": definition, "retries": tries})


def show_stats(service: AdminService, queue: Queue) -> JsonObject:
    """A queue in numbers: a bounded number of reads, however deep it is."""
    found, state, spec, now = stats(queue), queue.state(), queue.spec, queue.now()
    breakers = sorted(state.breakers.items())
    return {
        "name": spec.name,
        "app": service.definitions.queue(spec.name).app,
        "ordering": spec.ordering.value,
        "depth": found.depth,
        "max_depth": spec.retention.max_depth,
        "ready": found.ready,
        "scheduled": found.scheduled,
        "in_flight": found.in_flight,
        "oldest_age_ms": found.oldest_age_ms,
        "dead_letters": found.dead_letters,
        "arrived_per_minute": round(found.arrived_per_minute, 1),
        "done_per_minute": round(found.done_per_minute, 1),
        "paused": found.paused,
        "paused_at": rfc3339(state.paused_at),
        "paused_by": state.paused_by if found.paused else "",
        "breakers": [_show_breaker(target, breaker, now) for target, breaker in breakers],
        "standing_still": reasons(queue, found, state),
        "dead_letter_queue": service.definitions.queue(spec.name).dead_letter_queue,
        "dead_letters_of": _named_by(service, queue),
        "rate_per_second": spec.rate_per_second,
        "paced_until": rfc3339(state.pace_at) if state.pace_at > now else None,
        "max_concurrency": spec.max_concurrency,
        "concurrency_per_key": spec.concurrency_per_key,
        "exact": found.exact,
        "by_project": {project: count for project, count in sorted(found.by_project.items()) if project},
        "totals": dict(found.totals),
    }


def _named_by(service: AdminService, queue: Queue) -> list[JsonObject]:
    """The queues that name this one as their `dead_letter_queue`, with what they have: one read each."""
    definitions, name = service.definitions, queue.spec.name
    named_by = [one for one in definitions.queues if definitions.queue(one).dead_letter_queue == name]
    queues = [service.queue(queue.tenant, one) for one in named_by]
    return [{"queue": one.spec.name, "dead_letters": count_dead(one)} for one in queues]


def _show_breaker(target: str, breaker: BreakerState, now: int) -> JsonObject:
    return {
        "target": target,
        "since": rfc3339(breaker.since),
        "until": rfc3339(breaker.until),
        "failed_probes": breaker.level,
        "says": breaker_in_words(target, breaker, now),
    }


def list_messages(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A page of a queue's entries, in the order in which they will be worked off, by lane or by status."""
    queue, status = service.queue_of(request), request.query.get("status")
    if status is not None:
        page = list_by_status(queue, MessageStatus(status), **request.page)
    else:
        page = list_entries(queue, request.query.get("lane", "ready"), **request.page)
    return show_page("messages", page, show_entry)


def list_held(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A page of what is held: who, what, since when and until when."""
    return show_page("claims", list_claims(service.queue_of(request), **request.page), show_entry)


def pause_queue(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Hand out nothing until it is resumed."""
    queue = service.queue_of(request)
    pause(queue, request.principal.name)
    return HttpResponse(200, show_stats(service, queue))


def resume_queue(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Hand out messages again."""
    queue = service.queue_of(request)
    resume(queue, request.principal.name)
    return HttpResponse(200, show_stats(service, queue))


def reset_breakers(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Call a target again that is held to be down, or all of them."""
    queue = service.queue_of(request)
    reset_breaker(queue, request.body.get("target"))
    return HttpResponse(200, show_stats(service, queue))


def break_one_claim(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Take a message from whoever holds it and return it to the queue."""
    queue, message_id = service.queue_of(request), request.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("claim on message", message_id[:64])
    break_claim(queue, message_id)
    return HttpResponse(200, {"ok": True})


def cancel_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Take a message out of its queue for good."""
    queue, message_id = service.queue_of(request), request.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("queued message", message_id[:64])
    cancel_message(queue, message_id, running=request.body.get("running", False))
    flush(queue)
    return HttpResponse(200, {"ok": True})


def _counts(meaning: str) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "integer"}, "description": meaning}


_TOKEN = record(
    "Token",
    {
        "token_id": text(),
        "name": text(),
        "tenant": text(),
        "scopes": list_of(text()),
        "tenants": list_of(text()),
        "queues": list_of(text("None: every one.")),
    },
)
_STATS_MEMBERS: dict[str, Schema] = {
    "name": text(),
    "app": text(),
    "ordering": words("Ordering", Ordering),
    "depth": number("Unfinished messages."),
    "max_depth": number(),
    "ready": number(),
    "scheduled": number("Delayed, or backing off."),
    "in_flight": number(),
    "oldest_age_ms": number("Age of the oldest unfinished message."),
    "dead_letters": number("Those that were not replayed."),
    "arrived_per_minute": {"type": "number"},
    "done_per_minute": {"type": "number"},
    "paused": flag(),
    "paused_at": time(null=True),
    "paused_by": text(),
    "breakers": list_of(
        record(
            "Breaker",
            {
                "target": text("A target that is down."),
                "since": time("When its breaker opened.", null=True),
                "until": time("The next probe.", null=True),
                "failed_probes": number(),
                "says": text("The same in words."),
            },
        )
    ),
    "standing_still": STANDING_STILL,
    "dead_letter_queue": text("The queue whose retention says how long its dead letters are kept.", null=True),
    "dead_letters_of": list_of(
        record(
            "NamedDeadLetters",
            {"queue": text("It names this one as its `dead_letter_queue`."), "dead_letters": number()},
        )
    ),
    "rate_per_second": {"type": ["number", "null"], "description": "Starts a second over all workers."},
    "paced_until": time("The rate is used up until then.", null=True),
    "max_concurrency": number(),
    "concurrency_per_key": {"type": ["integer", "null"], "description": "Of each key so many are in hand at once."},
    "exact": flag("False when the queue is too deep to count."),
    "by_project": _counts("Of the messages counted."),
    "totals": _counts("Since the queue exists."),
}
_STATS = record("QueueStats", _STATS_MEMBERS)
_DETAILS = record(
    "QueueDetails",
    {
        **_STATS_MEMBERS,
        "definition": list_of(record("Setting", {"name": text(), "says": text()})),
        "retries": list_of(record("Retry", {"attempt": number(), "wait": text()})),
    },
)
_CANCEL = Record(
    {"running": Flag("Also while a worker holds it: it is told to stop, and what it answers changes nothing.")},
    name="CancelMessage",
    example={"running": True},
)
_RESET = Record(
    {"target": Text(2_048, 1, meaning="As `breakers` names it; all of the queue's unless given.")},
    name="ResetBreakers",
    example={"target": "http:https://example.com/hook"},
)
#: What a message is while it has an entry, as the numbers count them.
QUEUED = (MessageStatus.READY.value, MessageStatus.SCHEDULED.value, MessageStatus.IN_FLIGHT.value)
_UNKNOWN = ("unknown_queue",)
_LISTED = ("invalid_cursor", *_UNKNOWN)
_PATH = "/admin/queues/{queue}"
Handler = Callable[[AdminService, ApiRequest], HttpResponse]


def _get(path: str, name: str, summary: str, handle: Handler, reply: RouteReply, **more: Any) -> Route[AdminService]:
    return Route("GET", path, name, "operations", summary, handle, {200: reply}, (Scope.READ,), **more)


def _change(path: str, name: str, summary: str, handle: Handler, reply: RouteReply, *refuses: str) -> Any:
    route = Route("POST", path, name, "operations", summary, handle, {200: reply}, (Scope.OPERATE,), refuses=refuses)
    return audited(route)


ROUTES: tuple[Route[AdminService], ...] = (
    _get("/admin/whoami", "who_am_i", "Show the token's name, scopes, tenants and queues.", who_am_i,
         RouteReply("The token.", _TOKEN), filters_queues=True),
    _get("/admin/queues", "list_queue_stats", "Show every queue in numbers.", list_stats,
         RouteReply("Every queue.", record("QueueStatsList", {"queues": list_of(_STATS)})), filters_queues=True),
    _get(_PATH, "show_queue_stats", "Show one queue in numbers, and its definition in words.", show_one,
         RouteReply("The queue.", _DETAILS), refuses=_UNKNOWN),
    _get(f"{_PATH}/messages", "list_messages", "List a queue's unfinished messages, next to run first.", list_messages,
         RouteReply("A page of messages.", page_of("Entries", "messages", ENTRY)), refuses=_LISTED,
         query={"lane": Text(words=(*LANES, EVERY_LANE)),
                "status": Text(words=QUEUED, meaning="Instead of a lane."), **PAGE}),
    _get(f"{_PATH}/claims", "list_claims", "List who holds what, since when and until when.", list_held,
         RouteReply("A page of claims.", page_of("Claims", "claims", ENTRY)), query=PAGE, refuses=_LISTED),
    _change(f"{_PATH}/pause", "pause_queue", "Pause a queue: it hands out nothing until it is resumed.", pause_queue,
            RouteReply("The queue is paused.", _STATS), *_UNKNOWN),
    _change(f"{_PATH}/resume", "resume_queue", "Resume a paused queue.", resume_queue,
            RouteReply("The queue hands out messages.", _STATS), *_UNKNOWN),
    audited(Route("POST", f"{_PATH}/breakers/reset", "reset_breakers", "operations",
                  "Close the circuit breaker of a target, or of all: it is called again at once.", reset_breakers,
                  {200: RouteReply("The breakers are closed.", _STATS)}, (Scope.OPERATE,), body=_RESET,
                  refuses=_UNKNOWN)),
    _change(f"{_PATH}/messages/{{message_id}}/release", "break_claim",
            "Take a message from whoever holds it; no attempt is charged.", break_one_claim,
            RouteReply("The claim is broken; the message can be claimed again.", OK), "stale_claim", *_UNKNOWN),
    audited(Route("POST", f"{_PATH}/messages/{{message_id}}/cancel", "cancel_message", "operations",
                  "Take a message out of its queue for good; one that a worker holds only with `running`.", cancel_one,
                  {200: RouteReply("The message is out of its queue.", OK)}, (Scope.OPERATE,), body=_CANCEL,
                  refuses=("message_held", *_UNKNOWN))),
)  # fmt: skip
