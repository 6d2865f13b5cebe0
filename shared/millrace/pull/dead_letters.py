"""Dead letters over HTTP: list, look at, replay one, purge one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millrace.engine.dead_letters import (
    body_of_dead_letter,
    get_dead_letter,
    list_dead_letters,
    purge_dead_letter,
    replay,
)
from millrace.engine.queue import Queue
from millrace.http.fields import Kind, Text, Time
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import (
    ATTEMPT,
    LETTER,
    LETTER_MEMBERS,
    bytes_schemas,
    page_of,
    record,
    show_attempt,
    show_bytes,
    show_dead_letter,
    text,
)
from millrace.model.body import BodyLost
from millrace.model.errors import NotFound
from millrace.model.ids import random_token
from millrace.model.message import DeadLetter, DeadLetterFilter, DeadLetterReason
from millrace.model.tokens import Scope
from millrace.pull.enqueue import REQUEST_KEY
from millrace.pull.queues import PAGE
from millrace.pull.service import Service

LETTER_ID = re.compile(r"(\d{13})\.([A-Za-z0-9]{1,64})", re.ASCII)
#: A larger body is left out of what is shown of a letter.
SHOWN_BODY = 1024 * 1024
LAST_TIME = 9_999_999_999_999


def list_page(service: Service, call: RouteCall) -> HttpResponse:
    """A page of a queue's dead letters, newest first."""
    asked, only = call.query, dead_letter_filter(call.query)
    page = {name: asked[name] for name in ("limit", "cursor") if name in asked}
    dead_letters = list_dead_letters(_queue(service, call), only=only, **page)
    return HttpResponse(
        200,
        {
            "dead_letters": [show_dead_letter(dead_letter) for dead_letter in dead_letters.items],
            "next": dead_letters.next,
        },
    )


def dead_letter_filter(asked: Mapping[str, Any]) -> DeadLetterFilter:
    """A filter from what a request asks for under the names of `FILTER`."""
    return DeadLetterFilter(
        failed_from=max(0, asked.get("failed_from", 0)),
        failed_before=max(0, min(asked.get("failed_before", LAST_TIME), LAST_TIME)),
        reason=DeadLetterReason(asked["reason"]) if "reason" in asked else None,
        error_text=asked.get("error", ""),
        project=asked.get("project"),
        correlation_id=asked.get("correlation_id"),
    )


def show_one(service: Service, call: RouteCall) -> HttpResponse:
    """One dead letter, whole."""
    queue, dead_letter = _found(service, call)
    body = show_bytes("body", _body(queue, dead_letter))
    return HttpResponse(
        200, {**show_dead_letter(dead_letter), "history": [show_attempt(a) for a in dead_letter.history], **body}
    )


def _body(queue: Queue, dead_letter: DeadLetter) -> bytes | None:
    try:
        return body_of_dead_letter(queue, dead_letter) if dead_letter.message.body.size <= SHOWN_BODY else None
    except BodyLost:
        return None


def replay_one(service: Service, call: RouteCall) -> HttpResponse:
    """Enqueue it again as a new message; once for each Idempotency-Key."""
    queue, dead_letter = _found(service, call)
    job = call.headers.get("Idempotency-Key") or random_token(service.runtime.entropy)
    receipt = replay(queue, dead_letter, f"one:{job}")
    service.notify(queue)
    return HttpResponse(
        202, {"ok": True, "new_message_id": receipt.message_id, "correlation_id": receipt.correlation_id}
    )


def purge_one(service: Service, call: RouteCall) -> HttpResponse:
    """Forget a dead letter for good."""
    queue, dead_letter = _found(service, call)
    purge_dead_letter(queue, dead_letter.sk)
    return HttpResponse(200, {"ok": True})


def _queue(service: Service, call: RouteCall) -> Queue:
    return service.queue(call.tenant, call.path["queue"])


def _found(service: Service, call: RouteCall) -> tuple[Queue, DeadLetter]:
    queue, dead_letter_id = _queue(service, call), call.path["dead_letter_id"]
    found = LETTER_ID.fullmatch(dead_letter_id)
    if found is None:
        raise NotFound("dead letter", dead_letter_id[:80])
    return queue, get_dead_letter(queue, f"{found[1]}#{found[2]}")


_WHOLE = record(
    {**LETTER_MEMBERS, "history": {"type": "array", "items": ATTEMPT}, **bytes_schemas("body", "The body")},
    optional=("body", "body_base64"),
)
FILTER: Mapping[str, Kind] = {
    "failed_from": Time(),
    "failed_before": Time(),
    "reason": Text(words=tuple(DeadLetterReason)),
    "error": Text(200, meaning="Text in its error."),
    "project": Text(64),
    "correlation_id": Text(64),
}
_REPLAYED = record({"ok": {"type": "boolean"}, "new_message_id": text(), "correlation_id": text()})
_PATH = "/v1/queues/{queue}/dead-letters"
_ONE: Any = f"{_PATH}/{{dead_letter_id}}"
_UNKNOWN = ("unknown_queue",)
ROUTES: tuple[Route[Service], ...] = (
    Route("GET", _PATH, "list_dead_letters", "Dead letters, newest first.", list_page,
          {200: RouteReply("A page.", page_of("dead_letters", LETTER))}, Scope.READ,
          query={**FILTER, **PAGE}, refuses=("invalid_cursor", *_UNKNOWN)),
    Route("GET", _ONE, "show_dead_letter", "One dead letter, whole.", show_one,
          {200: RouteReply("The letter.", _WHOLE)}, Scope.READ, refuses=_UNKNOWN),
    Route("POST", f"{_ONE}/replay", "replay_dead_letter", "Enqueue a dead letter again, as a new message.", replay_one,
          {202: RouteReply("Accepted.", _REPLAYED)}, Scope.OPERATE, headers={"Idempotency-Key": REQUEST_KEY},
          refuses=("queue_full", "body_too_large", *_UNKNOWN)),
    Route("DELETE", _ONE, "purge_dead_letter", "Forget a dead letter for good.", purge_one,
          {200: RouteReply("It is gone.", record({"ok": {"type": "boolean"}}))}, Scope.OPERATE, refuses=_UNKNOWN),
)  # fmt: skip
