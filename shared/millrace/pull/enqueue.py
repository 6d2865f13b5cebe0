"""Enqueue over HTTP: one message, up to a hundred, or bytes exactly as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.admission.admit import Admitted, accept, admit, count_missing_keys
from millrace.engine.enqueue import Receipt, enqueue_all
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Queue
from millrace.http.fields import Anything, Base64, Either, Kind, Later, ListOf, MapOf, Record, Text, Time, Whole
from millrace.http.response import HttpResponse, item_of
from millrace.http.routes import Route, RouteCall, RouteReply
from millrace.http.schemas import RECEIPT, as_bytes, number, record, show_receipt
from millrace.model.errors import InvalidField, MillraceError
from millrace.model.message import Draft
from millrace.model.queue_spec import MAX_PRIORITY, PRIORITIES
from millrace.model.tokens import Scope
from millrace.pull.service import Service

BATCH = 100
WEEK_MS = 7 * 86_400_000
OCTETS = "application/octet-stream"
HEADER = Text(2_048, 0, r"[\t\x20-\x7e\x80-\uffff]*")
IDEMPOTENCY_KEY = Text(512, 1, r"[^\x00-\x1f]+", meaning="A repeat within the queue's window is the same message.")

OPTIONS: Mapping[str, Kind] = {
    "idempotency_key": IDEMPOTENCY_KEY,
    "delay_ms": Whole(0, WEEK_MS, "Hand it out only after so long."),
    "not_before": Time("Hand it out only from then on."),
    "priority": Either((Text(words=tuple(PRIORITIES)), Whole(0, MAX_PRIORITY)), "Higher first; not in ordered queues."),
    "key": Text(128, meaning="Orders (per_key) or takes turns (fair) within the queue."),
    "project": Text(64),
    "correlation_id": Text(64, meaning="Else the request's X-Correlation-Id."),
    "content_type": Text(128, 1, r"[\x21-\x7e][\x20-\x7e]*", meaning="Of the body."),
}
LABELS = ListOf(Text(32, 1), 20)
DRAFT = Record(
    {
        "body": Anything("Any JSON value."),
        "body_base64": Base64("Bytes; kept exactly."),
        **OPTIONS,
        "labels": LABELS,
        "headers": MapOf(HEADER, 50, "Kept with the message."),
    },
    exclusive=(("body", "body_base64"), ("delay_ms", "not_before")),
)
RAW_OPTIONS: Mapping[str, Kind] = {
    **{name: kind for name, kind in OPTIONS.items() if name not in ("correlation_id", "content_type")},
    "labels": Text(200, meaning="Separated by commas."),
}
REQUEST_KEY = Text(500, 1, r"[^\x00-\x1f]+", meaning="Of the request: a repeat of it makes no second message.")


def enqueue_one(service: Service, call: RouteCall) -> HttpResponse:
    """Accept one message."""
    return _enqueue(service, call, call.body)


def enqueue_raw(service: Service, call: RouteCall) -> HttpResponse:
    """Accept the request's own bytes."""
    given: dict[str, Any] = {"body_base64": call.request.body, **call.query}
    content_type = call.request.headers.get("content-type", OCTETS)
    given["content_type"] = OPTIONS["content_type"].read("Content-Type", content_type)
    if "labels" in given:
        given["labels"] = LABELS.read("labels", given["labels"].split(",") if given["labels"] else [])
    return _enqueue(service, call, given)


def _enqueue(service: Service, call: RouteCall, given: Mapping[str, Any]) -> HttpResponse:
    queue = service.queue(call.tenant, call.path["queue"])
    definition = service.definitions.queue(queue.spec.name)
    receipt = accept(queue, definition, _draft(queue, call, given, "body"), fallback_key=_request_key(call))
    if not (receipt.duplicate or receipt.status.ended):
        service.notify(queue)
    return _accepted(queue, receipt)


def enqueue_batch(service: Service, call: RouteCall) -> HttpResponse:
    """Accept many; each line of the answer is what it would have been alone."""
    queue = service.queue(call.tenant, call.path["queue"])
    request_key = _request_key(call)
    outcomes: dict[int, Receipt | MillraceError] = {}
    drafts: dict[int, Draft] = {}
    keyless = 0
    for position, given in enumerate(call.body["messages"]):
        path, key = f"messages[{position}]", f"{request_key}:{position}" if request_key else None
        try:
            ready = _admitted(service, queue, call, DRAFT.read(path, given), f"{path}.body", key)
            keyless += ready.key_missing
            if ready.filtered:
                outcomes[position] = record_filtered(queue, ready.draft)
            else:
                drafts[position] = ready.draft
        except MillraceError as error:
            outcomes[position] = error
    if keyless:
        count_missing_keys(queue.spec.name, keyless)
    outcomes.update(zip(drafts, enqueue_all(queue, list(drafts.values())), strict=True))
    if any(isinstance(outcomes[n], Receipt) for n in drafts):
        service.notify(queue)
    return HttpResponse(200, {"items": [_line(outcomes[n], call) for n in range(len(outcomes))]})


def _request_key(call: RouteCall) -> str | None:
    key: str | None = call.headers.get("Idempotency-Key")
    return key


def _admitted(
    service: Service, queue: Queue, call: RouteCall, given: Mapping[str, Any], path: str, request_key: str | None
) -> Admitted:
    draft = _draft(queue, call, given, path)
    return admit(service.definitions.queue(queue.spec.name), draft, queue.now(), fallback_key=request_key)


def _line(outcome: Receipt | MillraceError, call: RouteCall) -> dict[str, Any]:
    if isinstance(outcome, MillraceError):
        return item_of(0, outcome, call.correlation_id)
    return item_of(_status_of(outcome), show_receipt(outcome), call.correlation_id)


def _accepted(queue: Queue, receipt: Receipt) -> HttpResponse:
    location = f"/v1/queues/{queue.spec.name}/messages/{receipt.message_id}"
    return HttpResponse(_status_of(receipt), show_receipt(receipt), headers={"Location": location})


def _status_of(receipt: Receipt) -> int:
    return 200 if receipt.status.ended else 202


def _draft(queue: Queue, call: RouteCall, given: Mapping[str, Any], path: str) -> Draft:
    body = as_bytes(given, "body")
    if body is None:
        raise InvalidField(path, "is missing", "body (any JSON value) or body_base64 (bytes)")
    not_before = given.get("not_before")
    if "delay_ms" in given:
        not_before = queue.now() + int(given["delay_ms"])
    return Draft(
        body,
        content_type=given.get("content_type") or ("application/json" if "body" in given else OCTETS),
        headers=given.get("headers", {}),
        idempotency_key=given.get("idempotency_key"),
        key=given.get("key", ""),
        priority=given.get("priority"),
        not_before=not_before,
        project=given.get("project"),
        labels=given.get("labels"),
        correlation_id=given.get("correlation_id") or call.correlation_id,
        source=f"token:{call.principal.name}"[:80],
    )


_KEY_HEADER: Mapping[str, Kind] = {"Idempotency-Key": REQUEST_KEY}
_LOCATION = {"Location": "Where its status is."}
_ACCEPTED = {
    200: RouteReply(
        "It has ended already: it was there before, or the queue's filter leaves it out.", RECEIPT, headers=_LOCATION
    ),
    202: RouteReply("Accepted: it will end as done or as a dead letter.", RECEIPT, headers=_LOCATION),
}
_ITEM = {"anyOf": [
    record({"http_status": number(), **RECEIPT["properties"]}, optional=("result", "result_base64")),
    record({"http_status": number(), "problem": {"$ref": "#/components/schemas/Problem"}}),
]}  # fmt: skip
_REFUSES = ("unknown_queue", "body_too_large", "invalid_message", "queue_full")
ROUTES: tuple[Route[Service], ...] = (
    Route(
        "POST",
        "/v1/queues/{queue}/messages",
        "enqueue",
        "Enqueue one message.",
        enqueue_one,
        _ACCEPTED,
        Scope.ENQUEUE,
        body=DRAFT,
        headers=_KEY_HEADER,
        refuses=_REFUSES,
    ),
    Route(
        "POST",
        "/v1/queues/{queue}/messages/raw",
        "enqueue_raw",
        "Enqueue the request's own bytes, kept exactly.",
        enqueue_raw,
        _ACCEPTED,
        Scope.ENQUEUE,
        takes_bytes=True,
        query=RAW_OPTIONS,
        headers=_KEY_HEADER,
        refuses=_REFUSES,
    ),
    Route(
        "POST",
        "/v1/queues/{queue}/messages/batch",
        "enqueue_batch",
        f"Enqueue up to {BATCH} messages; each is answered for by itself.",
        enqueue_batch,
        {200: RouteReply("One line for each, in their order.", record({"items": {"type": "array", "items": _ITEM}}))},
        Scope.ENQUEUE,
        body=Record({"messages": ListOf(Later(DRAFT), BATCH, 1)}, required=("messages",)),
        headers=_KEY_HEADER,
        refuses=_REFUSES,
    ),
)
