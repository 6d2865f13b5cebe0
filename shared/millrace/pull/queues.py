"""Looking at queues and messages over HTTP, and an operator's hand on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millrace.engine.inspect import Stats, list_claims, list_entries, stats
from millrace.engine.operate import pause, resume
from millrace.engine.queue import Queue
from millrace.engine.status import MessageView, status
from millrace.http.fields import Kind, Text, Whole
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import ENTRY, STATUS, number, page_of, record, show_entry, show_status, text
from millrace.model.body import read_body
from millrace.model.cursor import MAX_PAGE
from millrace.model.errors import InvalidField, NotFound
from millrace.model.message import Message
from millrace.model.tokens import Scope
from millrace.pull.service import Service

MESSAGE_ID = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
RANGE = re.compile(r"bytes=(\d{1,12})-(\d{0,12})", re.ASCII)
#: Of a body in one answer: base64 adds a third, and a Lambda answers with 6 MB at most.
MAX_PART = 4 * 1024 * 1024
PAGE: Mapping[str, Kind] = {
    "limit": Whole(1, MAX_PAGE, "50 unless told otherwise."),
    "cursor": Text(2_048, 1, meaning="The `next` of the page before."),
}


def list_queues(service: Service, call: RouteCall) -> HttpResponse:
    """Every queue in numbers."""
    return HttpResponse(
        200, {"queues": [_show_stats(service.queue(call.tenant, q)) for q in service.definitions.queues]}
    )


def show_queue(service: Service, call: RouteCall) -> HttpResponse:
    """One queue in numbers."""
    return HttpResponse(200, _show_stats(_queue(service, call)))


def _show_stats(queue: Queue) -> dict[str, Any]:
    found: Stats = stats(queue)
    return {
        "name": queue.spec.name,
        "ordering": queue.spec.ordering.value,
        "depth": found.depth,
        "ready": found.ready,
        "scheduled": found.scheduled,
        "in_flight": found.in_flight,
        "dead_letters": found.dead_letters,
        "oldest_age_ms": found.oldest_age_ms,
        "arrived_per_minute": found.arrived_per_minute,
        "done_per_minute": found.done_per_minute,
        "paused": found.paused,
        "exact": found.exact,
    }


def show_message(service: Service, call: RouteCall) -> HttpResponse:
    """A message's state by its id."""
    return HttpResponse(200, show_status(_status(service, call)))


def show_body(service: Service, call: RouteCall) -> HttpResponse:
    """The exact bytes of a message's body, whole or a range of them."""
    message = _status(service, call).message
    return bytes_answer(message, read_body(message.body, service.runtime.blobs), call.headers.get("Range"))


def bytes_answer(message: Message, content: bytes, asked: str | None) -> HttpResponse:
    """A body for saving, never for showing: a browser must not take it for a page."""
    headers = {"Content-Type": message.content_type, "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes"}
    headers["Content-Disposition"] = "attachment"
    if not content or (asked is None and len(content) <= MAX_PART):
        return HttpResponse(200, content=content, headers=headers)
    first, last = _range(asked, len(content))
    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return HttpResponse(206, content=content[first : last + 1], headers=headers)


def _range(asked: str | None, size: int) -> tuple[int, int]:
    found = RANGE.fullmatch(asked or "bytes=0-")
    first = int(found[1]) if found else -1
    last = min(int(found[2]) if found and found[2] else size - 1, size - 1, first + MAX_PART - 1)
    if not 0 <= first <= last:
        raise InvalidField("Range", f"{asked!r} is not within the {size} bytes", "bytes=first-last")
    return first, last


def list_messages(service: Service, call: RouteCall) -> HttpResponse:
    """A page of a queue's entries, in the order in which they will be worked off."""
    page = list_entries(_queue(service, call), call.query.get("lane", "ready"), **_page(call))
    return HttpResponse(200, {"messages": [show_entry(entry) for entry in page.items], "next": page.next})


def show_claims(service: Service, call: RouteCall) -> HttpResponse:
    """A page of what is held: who, what, since when and until when."""
    page = list_claims(_queue(service, call), **_page(call))
    return HttpResponse(200, {"claims": [show_entry(entry) for entry in page.items], "next": page.next})


def _page(call: RouteCall) -> dict[str, Any]:
    return {name: call.query[name] for name in ("limit", "cursor") if name in call.query}


def pause_queue(service: Service, call: RouteCall) -> HttpResponse:
    """Hand out nothing until it is resumed."""
    queue = _queue(service, call)
    pause(queue, call.principal.name)
    return HttpResponse(200, _show_stats(queue))


def resume_queue(service: Service, call: RouteCall) -> HttpResponse:
    """Hand out messages again."""
    queue = _queue(service, call)
    resume(queue, call.principal.name)
    service.notify(queue)
    return HttpResponse(200, _show_stats(queue))


def _queue(service: Service, call: RouteCall) -> Queue:
    return service.queue(call.tenant, call.path["queue"])


def _status(service: Service, call: RouteCall) -> MessageView:
    message_id = call.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("message", message_id[:64])
    return status(_queue(service, call), message_id)


_STATS = record(
    {
        "name": text(),
        "ordering": text(),
        "depth": number("Unfinished messages."),
        "ready": number(),
        "scheduled": number("Delayed, or backing off."),
        "in_flight": number(),
        "dead_letters": number(),
        "oldest_age_ms": number(),
        "arrived_per_minute": {"type": "number"},
        "done_per_minute": {"type": "number"},
        "paused": {"type": "boolean"},
        "exact": {"type": "boolean", "description": "False when the queue is too deep to count."},
    }
)
_UNKNOWN = ("unknown_queue",)
_BYTES = {"type": "string", "format": "binary"}
_RANGE_HEADER: Mapping[str, Kind] = {"Range": Text(40, 1, r"bytes=\d{1,12}-\d{0,12}", meaning="A part of the body.")}
_ONE_QUEUE = {200: RouteReply("The queue now.", _STATS)}


def _get(path: str, name: str, summary: str, handle: Any, reply: RouteReply, **more: Any) -> Route[Service]:
    return Route(
        "GET", path, name, summary, handle, {200: reply}, Scope.READ, refuses=("invalid_cursor", *_UNKNOWN), **more
    )


ROUTES: tuple[Route[Service], ...] = (
    _get("/v1/queues", "list_queues", "Every queue in numbers.", list_queues,
         RouteReply("All of them.", record({"queues": {"type": "array", "items": _STATS}}))),
    _get("/v1/queues/{queue}", "show_queue", "One queue in numbers.", show_queue, RouteReply("The queue now.", _STATS)),
    _get("/v1/queues/{queue}/messages", "list_messages", "A queue's unfinished messages, next first.", list_messages,
         RouteReply("A page.", page_of("messages", ENTRY)), query={"lane": Text(words=("ready", "scheduled")), **PAGE}),
    _get("/v1/queues/{queue}/claims", "list_claims", "Who holds what, since when, until when.", show_claims,
         RouteReply("A page.", page_of("claims", ENTRY)), query=PAGE),
    _get("/v1/queues/{queue}/messages/{message_id}", "show_message", "A message's state by its id.", show_message,
         RouteReply("The message now.", STATUS)),
    Route(
        "GET", "/v1/queues/{queue}/messages/{message_id}/body", "show_body",
        f"The body's exact bytes; more than {MAX_PART} come in parts.", show_body,
        {
            200: RouteReply("All of it.", _BYTES, "*/*"),
            206: RouteReply("A part of it.", _BYTES, "*/*", {"Content-Range": "Which part."}),
        },
        Scope.CONSUME, headers=_RANGE_HEADER, refuses=_UNKNOWN,
    ),
    Route("POST", "/v1/queues/{queue}/pause", "pause", "Hand out nothing until it is resumed.", pause_queue,
          _ONE_QUEUE, Scope.OPERATE, refuses=_UNKNOWN),
    Route("POST", "/v1/queues/{queue}/resume", "resume", "Hand out messages again.", resume_queue,
          _ONE_QUEUE, Scope.OPERATE, refuses=_UNKNOWN),
)  # fmt: skip
