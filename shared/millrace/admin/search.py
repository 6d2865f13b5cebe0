"""Search: a message by its id or idempotency key, whatever its status; a correlation id or key within bounds.

A message's id comes from its idempotency key, so that is one read for each queue and each webhook. No index carries
correlation ids and keys: one would cost every message a write more. They are looked for among the first 300 entries
of every lane, the newest 1,000 dead letters of every queue and the last messages that it remembers as done; `complete`
says whether that was everything that is queued or dead. A message that was done long ago is found by its id or
idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from millrace.admin.dead_letters import DEAD_LETTER_ID
from millrace.admin.service import AdminService, ids_of_key
from millrace.engine.inspect import LANES, status_of
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, locate
from millrace.http.fields import Text, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import MESSAGE_ID, STATUS, dead_letter_id, flag, list_of, record, text, time, words
from millrace.model.keys import END
from millrace.model.message import DeadLetter, Entry, Message
from millrace.model.tokens import Scope

#: Entries of a lane looked through in each partition.
LOOKED_AT = 300
#: The newest dead letters of a queue looked through.
LOOKED_AT_DEAD = 1_000
MAX_FOUND = 50
#: Behind every dead letter.
LAST_SORT_KEY = "~"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found."""

    items: list[dict[str, Any]]
    complete: bool  #: false when there was more to look through


def find(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Messages by message id, dead letter id, idempotency key, correlation id or key."""
    found = search(service, request.tenant, request.query.get("q", "").strip(), request.principal.reaches)
    return HttpResponse(200, {"found": found.items, "complete": found.complete})


def search(
    service: AdminService, tenant: str, wanted: str, reaches: Callable[[str], bool] = lambda _queue: True
) -> SearchResult:
    """Messages of a tenant by message id, dead letter id, idempotency key, correlation id or key, in queues within
    the asker's reach.
    """
    dead_letter = DEAD_LETTER_ID.fullmatch(wanted)
    message_id = dead_letter[2] if dead_letter else wanted
    exact = _by_id(service, tenant, message_id, "id") if MESSAGE_ID.fullmatch(message_id) else None
    if exact is not None and reaches(exact["queue"]):
        return SearchResult([exact], complete=True)
    items: dict[str, dict[str, Any]] = {}
    complete = True
    for name in filter(reaches, service.definitions.queues):
        found, whole = _in_queue(service, service.queue(tenant, name), wanted)
        items.update((hit["message_id"], hit) for hit in found if hit["message_id"] not in items)
        complete = complete and whole
    return SearchResult(list(items.values())[:MAX_FOUND], complete and len(items) <= MAX_FOUND)


def _in_queue(service: AdminService, queue: Queue, wanted: str) -> tuple[list[dict[str, Any]], bool]:
    """What one queue has, and whether all of its queued and dead messages were looked at."""
    tenant, name, store = queue.tenant, queue.spec.name, queue.store
    ids = ids_of_key(service.definitions, tenant, name, wanted)
    keyed = (_by_id(service, tenant, message_id, "idempotency_key") for message_id in ids)
    dead = store.read_dead_letters(tenant, name, "0", LAST_SORT_KEY, LOOKED_AT_DEAD, newest_first=True)
    pages = list(_pages(queue))
    found = [one for one in keyed if one is not None]
    entries = [entry for items, _ in pages for entry in items]
    done = store.get_messages(queue.state().recent_done)
    letters = ((one, _match(one.message.correlation_id, one.key, wanted)) for one in dead.items)
    queued = ((one, _match(one.correlation_id, one.key, wanted)) for one in entries)
    found += [_dead(one, by) for one, by in letters if by]
    found += [_queued(queue, one, by) for one, by in queued if by]
    found += [_done(message) for message in done.values() if message.correlation_id == wanted]
    return found[:MAX_FOUND], dead.next is None and all(whole for _, whole in pages)


def _match(correlation_id: str, key: str, wanted: str) -> str:
    """By which of the two it is meant, if by any."""
    return "correlation_id" if correlation_id == wanted else "key" if key == wanted else ""


def _by_id(service: AdminService, tenant: str, message_id: str, by: str) -> dict[str, Any] | None:
    records = service.runtime.store.get_records(message_id)
    message = records.message
    if message is None or message.tenant != tenant:
        return None
    found = locate(service.runtime.store, message, records, service.runtime.clock())
    dead = dead_letter_id(found.dead_letter) if found.dead_letter else None
    return _shown(message.queue, message.id, found.status, message.correlation_id, message.received_at, dead, by)


def _pages(queue: Queue) -> Iterator[tuple[tuple[Entry, ...], bool]]:
    for pk in queue.partitions():
        for lane in LANES.values():
            page = queue.store.read_lane(pk, lane, lane + END, LOOKED_AT)
            yield page.items, page.next is None


def _dead(dead_letter: DeadLetter, by: str) -> dict[str, Any]:
    message, shown = dead_letter.message, dead_letter_id(dead_letter.sk)
    return _shown(message.queue, message.id, MessageStatus.DEAD, message.correlation_id, message.received_at, shown, by)


def _done(message: Message) -> dict[str, Any]:
    at = message.received_at
    return _shown(message.queue, message.id, MessageStatus.DONE, message.correlation_id, at, None, "correlation_id")


def _queued(queue: Queue, entry: Entry, by: str) -> dict[str, Any]:
    status = status_of(entry, queue.now())
    return _shown(queue.spec.name, entry.id, status, entry.correlation_id, entry.enqueued_at, None, by)


def _shown(
    queue: str, message_id: str, status: MessageStatus, correlation: str, at: int, dead_letter: str | None, by: str
) -> dict[str, Any]:
    return {
        "queue": queue,
        "message_id": message_id,
        "status": status.value,
        "correlation_id": correlation,
        "at": rfc3339(at),
        "dead_letter_id": dead_letter,
        "matched": by,
    }


#: What a hit has of what was searched.
MATCHES = ("id", "idempotency_key", "correlation_id", "key")
_HIT = record(
    "SearchHit",
    {
        "queue": text(),
        "message_id": text(),
        "status": STATUS,
        "correlation_id": text(),
        "at": time(),
        "dead_letter_id": text(null=True),
        "matched": words("SearchMatch", MATCHES),
    },
)
_FOUND = record(
    "SearchResult",
    {"found": list_of(_HIT), "complete": flag("False when more is queued or dead than one request searches.")},
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/search", "search", "operations",
          "Find messages by message id, dead letter id, idempotency key, correlation id or key.", find,
          {200: RouteReply("What was found.", _FOUND)}, (Scope.READ,), filters_queues=True,
          query={"q": Text(256, 1, meaning=(
              "An id or key. Correlation ids and keys are searched in queued, dead and the last done messages."))}),
)  # fmt: skip
