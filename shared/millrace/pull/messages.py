"""Queues as producers and consumers see them, and messages by their ids."""

from __future__ import annotations

from typing import Any

from millrace.engine.queue import Queue
from millrace.engine.results import read_result
from millrace.engine.status import MessageView, status
from millrace.http.bodies import DOWNLOAD_SUMMARY, DOWNLOADS, RANGE_HEADER, bytes_schemas, download_body_of, show_bytes
from millrace.http.fields import rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import (
    ATTEMPT,
    DEAD_LETTER,
    ENTRY,
    MESSAGE_ID,
    MESSAGE_MEMBERS,
    STATUS,
    flag,
    list_of,
    number,
    or_null,
    record,
    show_attempt,
    show_dead_letter,
    show_entry,
    show_message,
    text,
    time,
    words,
)
from millrace.model.errors import KeyUnavailable, NotFound
from millrace.model.message import Result
from millrace.model.queue_spec import Ordering
from millrace.model.tokens import Scope
from millrace.pull.service import PullService
from millrace.pull.timeline import MOMENT, timeline


def list_queues(service: PullService, request: ApiRequest) -> HttpResponse:
    """Every queue that messages can be sent to or taken from."""
    queues = [
        service.queue(request.tenant, name) for name in filter(request.principal.reaches, service.definitions.queues)
    ]
    return HttpResponse(200, {"queues": [_show_queue(service, queue) for queue in queues]})


def show_queue(service: PullService, request: ApiRequest) -> HttpResponse:
    """One queue, as a producer or consumer needs to know it."""
    return HttpResponse(200, _show_queue(service, service.queue_of(request)))


def _show_queue(service: PullService, queue: Queue) -> dict[str, Any]:
    spec = queue.spec
    return {
        "name": spec.name,
        "app": service.definitions.queue(spec.name).app,
        "ordering": spec.ordering.value,
        "lease_ms": spec.lease_ms,
        "max_attempts": spec.delivery.max_attempts,
        "max_body_bytes": spec.max_body_bytes,
        "max_depth": spec.retention.max_depth,
        "paused": queue.state(fresh=True).paused_at > 0,
    }


def show_status(service: PullService, request: ApiRequest) -> HttpResponse:
    """A message's status, and what is known to have happened to it."""
    queue, found = _found(service, request)
    store, message, result = queue.store, found.message, found.result
    dead_letter = store.get_dead_letter(queue.tenant, queue.spec.name, found.dead_letter) if found.dead_letter else None
    shown = {
        "message_id": message.id,
        "queue": message.queue,
        "status": found.status.value,
        "correlation_id": message.correlation_id,
        **show_message(message),
        "entry": show_entry(found.entry) if found.entry else None,
        "history": [show_attempt(attempt) for attempt in found.history],
        "timeline": timeline(found, dead_letter),
        "finished_at": rfc3339(result.finished_at) if result else None,
        "dead_letter": show_dead_letter(dead_letter) if dead_letter else None,
        **_show_result(queue, result),
    }
    return HttpResponse(200, shown)


def _show_result(queue: Queue, result: Result | None) -> dict[str, Any]:
    """What it gave. Where that cannot be read now, the rest is shown all the same."""
    try:
        return show_bytes("result", read_result(queue, result))
    except KeyUnavailable:
        return {"result_omitted": True}


def download_body(service: PullService, request: ApiRequest) -> HttpResponse:
    """The exact bytes of a message's body, whole or a range of them."""
    _, found = _found(service, request)
    return download_body_of(service.runtime, found.message, request.headers.get("Range"))


def _found(service: PullService, request: ApiRequest) -> tuple[Queue, MessageView]:
    message_id = request.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("message", message_id[:64])
    queue = service.queue_of(request)
    return queue, status(queue, message_id)


_QUEUE = record(
    "Queue",
    {
        "name": text(),
        "app": text("The app that defines it."),
        "ordering": words("Ordering", Ordering),
        "lease_ms": number("How long a claim holds unless the dequeue says otherwise."),
        "max_attempts": number("Runs before a message becomes a dead letter."),
        "max_body_bytes": number(),
        "max_depth": number("Unfinished messages that it takes at most."),
        "paused": flag("No messages are handed out."),
    },
    example={
        "name": "Jobs",
        "app": "Shop",
        "ordering": "unordered",
        "lease_ms": 30_000,
        "max_attempts": 5,
        "max_body_bytes": 10_485_760,
        "max_depth": 10_000,
        "paused": False,
    },
)
_MESSAGE = record(
    "Message",
    {
        "message_id": text(),
        "queue": text(),
        "status": STATUS,
        "correlation_id": text(),
        **MESSAGE_MEMBERS,
        "entry": or_null(ENTRY),
        "history": list_of(ATTEMPT),
        "timeline": list_of(MOMENT),
        "finished_at": time(null=True),
        "dead_letter": or_null(DEAD_LETTER),
        **bytes_schemas("result", "The result"),
        "result_omitted": flag("There is a result, and its key cannot be used now."),
    },
    optional=("result", "result_base64", "result_omitted"),
)
_UNKNOWN = ("unknown_queue",)
_PATH = "/v1/queues/{queue}"
_READ = (Scope.READ,)
ROUTES: tuple[Route[PullService], ...] = (
    Route("GET", "/v1/queues", "list_queues", "queues", "List the queues.", list_queues,
          {200: RouteReply("Every queue.", record("Queues", {"queues": list_of(_QUEUE)}))}, _READ,
          filters_queues=True),
    Route("GET", _PATH, "show_queue", "queues", "Show one queue.", show_queue,
          {200: RouteReply("The queue.", _QUEUE)}, _READ, refuses=_UNKNOWN),
    Route("GET", f"{_PATH}/messages/{{message_id}}", "show_message", "messages",
          "Show a message's status and history.", show_status,
          {200: RouteReply("The message as it is now.", _MESSAGE)}, _READ, refuses=_UNKNOWN),
    Route("GET", f"{_PATH}/messages/{{message_id}}/body", "download_body", "messages", DOWNLOAD_SUMMARY,
          download_body, DOWNLOADS, (Scope.CONSUME, Scope.READ), headers=RANGE_HEADER,
          refuses=("body_lost", *_UNKNOWN)),
)  # fmt: skip
