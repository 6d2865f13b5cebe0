"""Search: a message by its id in one read; a correlation id where it can be found at a bounded cost.

No index carries correlation ids. They are looked for among the newest dead letters of every queue and among the
first entries of every lane; a message that is done is found by its id only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millrace.admin.dead_letters import DEAD_LETTER_ID
from millrace.admin.service import AdminService
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.inspect import LANES
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, locate
from millrace.http.fields import Text, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import MESSAGE_ID, STATUS, dead_letter_id, flag, list_of, record, text, time
from millrace.model.keys import END
from millrace.model.message import DeadLetter, DeadLetterFilter, Entry
from millrace.model.tokens import Scope

#: Entries of a lane looked through in each partition.
LOOKED_AT = 300
MAX_FOUND = 50


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found."""

    items: list[dict[str, Any]]
    complete: bool  #: false when there was more to look through


def find(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Messages by message id, dead letter id or correlation id."""
    found = search(service, request.tenant, request.query.get("q", "").strip())
    return HttpResponse(200, {"found": found.items, "complete": found.complete})


def search(service: AdminService, tenant: str, wanted: str) -> SearchResult:
    """Messages of a tenant by message id, dead letter id or correlation id."""
    dead_letter = DEAD_LETTER_ID.fullmatch(wanted)
    message_id = dead_letter[2] if dead_letter else wanted
    exact = _by_id(service, tenant, message_id) if MESSAGE_ID.fullmatch(message_id) else None
    if exact is not None:
        return SearchResult([exact], complete=True)
    items: dict[str, dict[str, Any]] = {}
    complete = True
    for name in service.definitions.queues:
        queue = service.queue(tenant, name)
        dead = list_dead_letters(queue, only=DeadLetterFilter(correlation_id=wanted), limit=MAX_FOUND)
        entries, whole = _entries(queue, wanted)
        items.update((dead_letter.message.id, _dead(dead_letter)) for dead_letter in dead.items)
        items.update((entry.id, _queued(queue, entry)) for entry in entries)
        complete = complete and whole and dead.next is None
    return SearchResult(list(items.values())[:MAX_FOUND], complete and len(items) <= MAX_FOUND)


def _by_id(service: AdminService, tenant: str, message_id: str) -> dict[str, Any] | None:
    records = service.runtime.store.get_records(message_id)
    message = records.message
    if message is None or message.tenant != tenant:
        return None
    found = locate(service.runtime.store, message, records, service.runtime.clock())
    dead = dead_letter_id(found.dead_letter) if found.dead_letter else None
    return _shown(message.queue, message.id, found.status, message.correlation_id, message.received_at, dead)


def _entries(queue: Queue, correlation_id: str) -> tuple[list[Entry], bool]:
    pages = list(_pages(queue))
    found = [entry for items, _ in pages for entry in items if entry.correlation_id == correlation_id]
    return found, all(whole for _, whole in pages)


def _pages(queue: Queue) -> Iterator[tuple[tuple[Entry, ...], bool]]:
    for pk in queue.partitions():
        for lane in LANES.values():
            page = queue.store.read_lane(pk, lane, lane + END, LOOKED_AT)
            yield page.items, page.next is None


def _dead(dead_letter: DeadLetter) -> dict[str, Any]:
    message = dead_letter.message
    return _shown(
        message.queue,
        message.id,
        MessageStatus.DEAD,
        message.correlation_id,
        message.received_at,
        dead_letter_id(dead_letter.sk),
    )


def _queued(queue: Queue, entry: Entry) -> dict[str, Any]:
    now = queue.now()
    status = (
        MessageStatus.IN_FLIGHT
        if entry.live(now)
        else MessageStatus.SCHEDULED
        if entry.due > now
        else MessageStatus.READY
    )
    return _shown(queue.spec.name, entry.id, status, entry.correlation_id, entry.enqueued_at, None)


def _shown(
    queue: str, message_id: str, status: MessageStatus, correlation: str, at: int, dead_letter: str | None
) -> dict[str, Any]:
    return {
        "queue": queue,
        "message_id": message_id,
        "status": status.value,
        "correlation_id": correlation,
        "at": rfc3339(at),
        "dead_letter_id": dead_letter,
    }


_HIT = record(
    "SearchHit",
    {
        "queue": text(),
        "message_id": text(),
        "status": STATUS,
        "correlation_id": text(),
        "at": time(),
        "dead_letter_id": text(null=True),
    },
)
_FOUND = record(
    "SearchResult",
    {"found": list_of(_HIT), "complete": flag("False when there was more to search than one request does.")},
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/search", "search", "operations",
          "Find messages by message id, dead letter id or correlation id.", find,
          {200: RouteReply("What was found.", _FOUND)}, (Scope.READ,),
          query={"q": Text(128, 1, meaning="The id. A correlation id is searched in queued and dead messages.")}),
)  # fmt: skip
