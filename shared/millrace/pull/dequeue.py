"""Dequeue over HTTP, and the workflow state under a claim."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from millrace.engine.claim import MAX_CLAIMS, MAX_LEASE_MS, OWNER_BYTES, Claim, body_of
from millrace.engine.drafts import priority_number
from millrace.engine.finish import release
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.engine.workflow_state import (
    MAX_STATE_BYTES,
    own_workflow_state,
    read_workflow_state,
    write_workflow_state,
)
from millrace.history.log import HistoryEvent
from millrace.http.fields import Anything, Either, Flag, Kind, ListOf, Record, Text, Whole, rfc3339
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import (
    ENTRY_MEMBERS,
    MESSAGE_MEMBERS,
    bytes_schemas,
    number,
    record,
    show_bytes,
    show_entry,
    show_message,
    text,
    time,
)
from millrace.model.body import BodyLost
from millrace.model.message import Message, WorkflowState
from millrace.model.queue_spec import MAX_PRIORITY, PRIORITIES
from millrace.model.tokens import Scope
from millrace.pull.dispatcher import Demand
from millrace.pull.finish import CLAIM, live_entry
from millrace.pull.service import Service

MAX_WAIT_MS = 20_000
#: Bodies in one answer, in bytes as received: base64 adds a third, and a Lambda answers with 6 MB at most.
BODY_BUDGET = 3 * 1024 * 1024
JSON_SUFFIXES = ("/json", "+json")

FILTER = Record(
    {
        "project": Text(64),
        "labels": ListOf(Text(32, 1), 20, meaning="All of them."),
        "max_priority": Either((Text(words=tuple(PRIORITIES)), Whole(0, MAX_PRIORITY))),
    }
)
DEQUEUE = Record(
    {
        "max": Whole(1, MAX_CLAIMS, "Messages at most; 1 unless told otherwise."),
        "wait_ms": Whole(0, MAX_WAIT_MS, "Wait so long for the first one."),
        "lease_ms": Whole(1, MAX_LEASE_MS, "How long the claim holds, unless extended; else the queue's own."),
        "owner": Text(OWNER_BYTES, 1, meaning="Who works on it, for people to see; else the token's name."),
        "filter": FILTER,
        "with_state": Flag("Bring the workflow state along."),
        "bodies": Text(words=("json", "base64", "none"), meaning="json: as JSON where it is, else base64."),
    }
)


def dequeue(service: Service, call: RouteCall) -> HttpResponse:
    """Claim messages, waiting for the first where asked to."""
    queue = service.queue(call.tenant, call.path["queue"])
    given = call.body
    demand = Demand(
        given.get("owner") or _owner(call),
        given.get("max", 1),
        given.get("lease_ms"),
        _filter(given.get("filter", {})),
    )
    claimed = service.dispatcher.take(queue, demand, given.get("wait_ms", 0))
    try:
        shown = list(_deliveries(service, queue, claimed.claims, given))
    except BaseException:
        # Nobody will hear of these claims: give them back, so that they need not run out.
        release(queue, [held.entry for held in claimed.claims])
        raise
    queue.record(HistoryEvent.STARTED, [held.entry for held in claimed.claims])
    return HttpResponse(200, {"messages": shown, "next_at": rfc3339(claimed.next_at)})


def _owner(call: RouteCall) -> str:
    return call.principal.name.encode()[:OWNER_BYTES].decode("utf-8", "ignore")


def _filter(given: Mapping[str, Any]) -> Filter:
    most = given.get("max_priority")
    return Filter(given.get("project"), given.get("labels", ()), None if most is None else priority_number(most))


def _deliveries(
    service: Service, queue: Queue, claims: list[Claim], given: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    budget = BODY_BUDGET
    bodies = given.get("bodies", "json")
    for held in claims:
        size = held.message.body.size
        content = None
        if bodies != "none" and size <= budget:
            content = _content(queue, held)
            budget -= size
        is_json = held.message.content_type.split(";")[0].strip().lower().endswith(JSON_SUFFIXES)
        yield {
            "claim": service.handles.write(queue, held),
            "attempt": held.attempt,
            **show_entry(held.entry),
            **show_message(held.message),
            **show_bytes("body", content, as_json=bodies == "json" and is_json),
            "body_omitted": content is None,
            **(_state(_document(queue, held.message)) if given.get("with_state") else {}),
        }


def _document(queue: Queue, message: Message) -> WorkflowState:
    return own_workflow_state(queue.store.get_records(message.id), message.nonce)


def _content(queue: Queue, held: Claim) -> bytes | None:
    try:
        return body_of(queue, held)
    except BodyLost:
        return None


def _state(document: WorkflowState) -> dict[str, Any]:
    if not document.version:
        return {"state": None, "state_version": 0}
    return {"state": json.loads(document.content), "state_version": document.version}


def read_state(service: Service, call: RouteCall) -> HttpResponse:
    """The workflow state under a live claim."""
    queue = service.queue(call.tenant, call.path["queue"])
    entry = service.handles.read(queue, call.headers.get("X-Millrace-Claim", "")).entry
    return HttpResponse(200, _state(read_workflow_state(queue, entry)))


def write_state(service: Service, call: RouteCall) -> HttpResponse:
    """Replace the workflow state that was read at a version."""
    queue = service.queue(call.tenant, call.path["queue"])
    entry = live_entry(queue, service.handles.read(queue, call.body["claim"]).entry)
    content = json.dumps(call.body["state"], ensure_ascii=False, separators=(",", ":")).encode()
    return HttpResponse(200, _state(write_workflow_state(queue, entry, content, call.body["version"])))


_DELIVERY = record(
    {
        "claim": text("Finish, extend and give back with this."),
        "attempt": number("Which run this is, from 1."),
        **ENTRY_MEMBERS,
        **MESSAGE_MEMBERS,
        **bytes_schemas("body", "The body"),
        "body_omitted": {"type": "boolean", "description": "Too large for one answer, or not asked for: fetch it."},
        "state": {"description": "Workflow state; null where none was written."},
        "state_version": number(),
    },
    optional=("body", "body_base64", "state", "state_version"),
)
_STATE = record({"state": {}, "state_version": number("0 where none was written.")})
_CLAIM_HEADER: Mapping[str, Kind] = {"X-Millrace-Claim": CLAIM}
ROUTES: tuple[Route[Service], ...] = (
    Route(
        "POST",
        "/v1/queues/{queue}/dequeue",
        "dequeue",
        "Claim messages; waits up to 20 s for the first where asked to.",
        dequeue,
        {
            200: RouteReply(
                "What was claimed, best first; none is no error.",
                record({"messages": {"type": "array", "items": _DELIVERY}, "next_at": time(null=True)}),
            )
        },
        Scope.CONSUME,
        body=DEQUEUE,
        refuses=("unknown_queue", "too_many_waiting"),
    ),
    Route(
        "GET",
        "/v1/queues/{queue}/state",
        "read_state",
        "Read the workflow state of a claimed message.",
        read_state,
        {200: RouteReply("The state and its version.", _STATE)},
        Scope.CONSUME,
        headers=_CLAIM_HEADER,
        refuses=("unknown_queue", "stale_claim"),
    ),
    Route(
        "PUT",
        "/v1/queues/{queue}/state",
        "write_state",
        f"Replace the workflow state of a claimed message; at most {MAX_STATE_BYTES} bytes.",
        write_state,
        {200: RouteReply("The state as it stands now.", _STATE)},
        Scope.CONSUME,
        body=Record(
            {"claim": CLAIM, "state": Anything(), "version": Whole(0, 10**9, "As it was read; 0 for none yet.")},
            required=("claim", "state", "version"),
        ),
        refuses=("unknown_queue", "stale_claim", "stale_state"),
    ),
)
