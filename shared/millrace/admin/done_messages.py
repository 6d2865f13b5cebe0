"""The last messages of a queue that were done.

No index lists them, since it would cost every message a write more. The queue's counters, which every ack writes
anyway, carry the ids of the last seven: no write and no unit more. Workers that ack at the same time may leave some
out.
"""

from __future__ import annotations

from millrace.admin.service import AdminService
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, locate
from millrace.http.fields import rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import JsonObject, list_of, number, record, text, time
from millrace.model.message import Message
from millrace.model.queue_state import RECENT_DONE
from millrace.model.tokens import Scope


def list_done(service: AdminService, request: ApiRequest) -> HttpResponse:
    """The last messages that were done, newest first."""
    found = recently_done(service.queue_of(request))
    return HttpResponse(200, {"messages": [_show(*one) for one in found], "limit": RECENT_DONE})


def recently_done(queue: Queue) -> list[tuple[Message, int]]:
    """Messages that were done lately and still are, with the time where it is kept: two reads each at most."""
    found = []
    for message_id in queue.state(fresh=True).recent_done:
        records = queue.store.get_records(message_id)
        message, result = records.message, records.result
        if message is None:
            continue
        if locate(queue.store, message, records, queue.now()).status is MessageStatus.DONE:
            own = result is not None and result.nonce == message.nonce
            found.append((message, result.finished_at if result and own else 0))
    return found


def _show(message: Message, finished_at: int) -> JsonObject:
    return {
        "message_id": message.id,
        "correlation_id": message.correlation_id,
        "idempotency_key": message.idempotency_key,
        "source": message.source,
        "size": message.body.size,
        "received_at": rfc3339(message.received_at),
        "finished_at": rfc3339(finished_at),
    }


_DONE = record(
    "DoneMessage",
    {
        "message_id": text(),
        "correlation_id": text(),
        "idempotency_key": text(),
        "source": text(),
        "size": number("Bytes of the body as received."),
        "received_at": time(),
        "finished_at": time("Null where no result is kept.", null=True),
    },
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/queues/{queue}/done", "list_done_messages", "operations",
          "List the last messages that were done, newest first.", list_done,
          {200: RouteReply("The last messages that were done.", record(
              "DoneMessages", {"messages": list_of(_DONE), "limit": number("More are not remembered.")}))},
          (Scope.READ,), refuses=("unknown_queue",)),
)  # fmt: skip
