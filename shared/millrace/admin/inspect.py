"""Looking: queues with all that an operator asks of them, messages with their history, and search."""

from __future__ import annotations

from typing import Any

from millrace.admin.schemas import FOUND, MESSAGE, QUEUE, QUEUE_ROW, WHO, WHOLE_DEAD_LETTER, show_queue_row
from millrace.admin.search import search
from millrace.admin.service import AdminService
from millrace.admin.timeline import timeline
from millrace.definitions.explain import describe_wait, limits, timetable
from millrace.engine.dead_letters import get_dead_letter
from millrace.engine.queue import Queue
from millrace.engine.status import status
from millrace.http.fields import Schema, Text
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import (
    ENTRY,
    LETTER,
    page_of,
    record,
    show_attempt,
    show_bytes,
    show_dead_letter,
    show_status,
)
from millrace.model.body import BodyLost, read_body
from millrace.model.errors import NotFound
from millrace.model.message import Body, DeadLetter
from millrace.model.tokens import Scope
from millrace.pull import dead_letters, queues
from millrace.pull.dead_letters import LETTER_ID
from millrace.pull.queues import MESSAGE_ID

#: A larger body is not shown but downloaded.
SHOWN_BODY = 256 * 1024


def who_am_i(_service: AdminService, call: RouteCall) -> HttpResponse:
    """The token's own reach."""
    principal = call.principal
    shown = {"token_id": principal.token_id, "name": principal.name, "tenant": call.tenant}
    return HttpResponse(200, {**shown, "scopes": sorted(principal.scopes), "tenants": list(principal.tenants)})


def list_queues(service: AdminService, call: RouteCall) -> HttpResponse:
    """Every queue in numbers."""
    names = service.definitions.queues
    rows = [show_queue_row(service.queue(call.tenant, name), service.definitions.queue(name)) for name in names]
    return HttpResponse(200, {"queues": rows})


def show_queue(service: AdminService, call: RouteCall) -> HttpResponse:
    """One queue in numbers, and its definition as people read it."""
    queue = _queue(service, call)
    definition = service.definitions.queue(queue.spec.name)
    delivery = queue.spec.delivery
    tries = [{"attempt": a.number, "wait": describe_wait(a, delivery.jitter)} for a in timetable(delivery)[:50]]
    said = [{"name": name, "says": sentence} for name, sentence in limits(definition)]
    return HttpResponse(200, {**show_queue_row(queue, definition), "definition": said, "retries": tries})


def show_message(service: AdminService, call: RouteCall) -> HttpResponse:
    """One message with its whole history and its body; also one of which only the dead letter is left."""
    queue, message_id = _queue(service, call), call.path["message_id"]
    if not MESSAGE_ID.fullmatch(message_id):
        raise NotFound("message", message_id[:64])
    found = status(queue, message_id)
    dead_letter = _dead_letter(queue, found.dead_letter)
    shown = {
        **show_status(found),
        "dead_letter": show_dead_letter(dead_letter) if dead_letter else None,
        "timeline": timeline(found, dead_letter),
        **_body(queue, found.message.body),
    }
    return HttpResponse(200, shown)


def show_dead_letter_whole(service: AdminService, call: RouteCall) -> HttpResponse:
    """One dead letter, whole."""
    queue, dead_letter = dead_letter_of(service, call)
    history = [show_attempt(attempt) for attempt in dead_letter.history]
    return HttpResponse(
        200, {**show_dead_letter(dead_letter), "history": history, **_body(queue, dead_letter.message.body)}
    )


def download_dead_letter(service: AdminService, call: RouteCall) -> HttpResponse:
    """The exact bytes of a dead letter's body, also when its message is forgotten."""
    queue, dead_letter = dead_letter_of(service, call)
    content = read_body(dead_letter.message.body, queue.runtime.blobs)
    return queues.bytes_answer(dead_letter.message, content, call.headers.get("Range"))


def dead_letter_of(service: AdminService, call: RouteCall) -> tuple[Queue, DeadLetter]:
    queue, dead_letter_id = _queue(service, call), call.path["dead_letter_id"]
    found = LETTER_ID.fullmatch(dead_letter_id)
    if found is None:
        raise NotFound("dead letter", dead_letter_id[:80])
    return queue, get_dead_letter(queue, f"{found[1]}#{found[2]}")


def find(service: AdminService, call: RouteCall) -> HttpResponse:
    """Messages by message id, dead letter id or correlation id."""
    found = search(service, call.tenant, call.query.get("q", "").strip())
    return HttpResponse(200, {"found": found.items, "complete": found.complete})


def _queue(service: AdminService, call: RouteCall) -> Queue:
    return service.queue(call.tenant, call.path["queue"])


def _dead_letter(queue: Queue, sk: str) -> DeadLetter | None:
    return queue.store.get_dead_letter(queue.tenant, queue.spec.name, sk) if sk else None


def _body(queue: Queue, body: Body) -> dict[str, Any]:
    if body.size > SHOWN_BODY:
        return {"body_omitted": True}
    try:
        return {**show_bytes("body", read_body(body, queue.runtime.blobs)), "body_omitted": False}
    except BodyLost:
        return {"body_omitted": True}


_UNKNOWN = ("unknown_queue",)
_LISTED = ("invalid_cursor", *_UNKNOWN)
_PATH = "/admin/queues/{queue}"
_BYTES = {
    200: RouteReply("All of it.", {"type": "string", "format": "binary"}, "*/*"),
    206: RouteReply("A part of it.", {"type": "string", "format": "binary"}, "*/*", {"Content-Range": "Which part."}),
}
_RANGE = {"Range": Text(40, 1, r"bytes=\d{1,12}-\d{0,12}", meaning="A part of the body.")}


def _get(path: str, name: str, summary: str, handle: Any, schema: Schema, **more: Any) -> Route[AdminService]:
    return Route("GET", path, name, summary, handle, {200: RouteReply("Found.", schema)}, Scope.READ, **more)


ROUTES: tuple[Route[AdminService], ...] = (
    _get("/admin/whoami", "admin_who_am_i", "The token's own name and reach.", who_am_i, WHO),
    _get("/admin/queues", "admin_list_queues", "Every queue in numbers.", list_queues,
         record({"queues": {"type": "array", "items": QUEUE_ROW}})),
    _get(_PATH, "admin_show_queue", "One queue in numbers, and its definition in words.", show_queue, QUEUE,
         refuses=_UNKNOWN),
    _get(f"{_PATH}/messages", "admin_list_messages", "A queue's unfinished messages, next first.",
         queues.list_messages, page_of("messages", ENTRY), refuses=_LISTED,
         query={"lane": Text(words=("ready", "scheduled")), **queues.PAGE}),
    _get(f"{_PATH}/messages/{{message_id}}", "admin_show_message", "One message, its history and its body.",
         show_message, MESSAGE, refuses=_UNKNOWN),
    Route("GET", f"{_PATH}/messages/{{message_id}}/body", "admin_download_body", "The body's exact bytes.",
          queues.show_body, _BYTES, Scope.READ, headers=_RANGE, refuses=_UNKNOWN),
    _get(f"{_PATH}/claims", "admin_list_claims", "Who holds what, since when, until when.", queues.show_claims,
         page_of("claims", ENTRY), query=queues.PAGE, refuses=_LISTED),
    _get(f"{_PATH}/dead-letters", "admin_list_dead_letters", "Dead letters, newest first.", dead_letters.list_page,
         page_of("dead_letters", LETTER), query={**dead_letters.FILTER, **queues.PAGE}, refuses=_LISTED),
    _get(f"{_PATH}/dead-letters/{{dead_letter_id}}", "admin_show_dead_letter", "One dead letter, whole.",
         show_dead_letter_whole, WHOLE_DEAD_LETTER, refuses=_UNKNOWN),
    Route("GET", f"{_PATH}/dead-letters/{{dead_letter_id}}/body", "admin_download_dead_letter",
          "The body's exact bytes.", download_dead_letter, _BYTES, Scope.READ, headers=_RANGE, refuses=_UNKNOWN),
    _get("/admin/search", "admin_search", "Messages by message id, dead letter id or correlation id.", find, FOUND,
         query={"q": Text(128, 1, meaning="The id; a correlation id is looked for where the README says.")}),
)  # fmt: skip
