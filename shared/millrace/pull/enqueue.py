"""Enqueue over HTTP: one message, up to a hundred, or bytes exactly as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from millrace.admission.admit import Admitted, accept, admit, count_missing_keys
from millrace.engine.enqueue import Receipt, enqueue_all
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Queue
from millrace.engine.results import with_result
from millrace.http.bodies import as_bytes
from millrace.http.fields import Anything, Base64, Either, Kind, Later, ListOf, MapOf, Record, Text, Time, Whole
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse, item_of
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import RECEIPT, REQUEST_KEY, items_of, show_receipt
from millrace.model.body import digest
from millrace.model.errors import InvalidField, KeyReused, MillraceError
from millrace.model.message import Draft, Message, StoredBody
from millrace.model.queue_spec import MAX_PRIORITY, PRIORITIES
from millrace.model.tokens import Scope
from millrace.model.trace_context import trace_of
from millrace.model.uploads import MAX_UPLOAD_BYTES, upload_of
from millrace.pull.service import PullService

BATCH = 100
WEEK_MS = 7 * 86_400_000
OCTETS = "application/octet-stream"
#: Names with a colon in front are the queue's own.
HEADER_NAME = Text(256, 0, r"(?!:)[^\x00-\x1f]*")
HEADER = Text(2_048, 0, r"[\t\x20-\x7e\x80-\uffff]*")
IDEMPOTENCY_KEY = Text(
    512,
    1,
    r"[^\x00-\x1f]+",
    meaning="A repeat within the queue's window is the same message; with another body it is refused.",
)

PRIORITY_WORD = Text(words=tuple(PRIORITIES), name="PriorityName")
OPTIONS: Mapping[str, Kind] = {
    "idempotency_key": IDEMPOTENCY_KEY,
    "delay_ms": Whole(0, WEEK_MS, "Hand it out only after this time."),
    "not_before": Time("Hand it out from this time on."),
    "priority": Either((PRIORITY_WORD, Whole(0, MAX_PRIORITY)), "Higher first; not in ordered queues."),
    "key": Text(128, meaning="Orders (per_key) or takes turns (fair) within the queue."),
    "project": Text(64),
    "correlation_id": Text(64, meaning="The request's X-Correlation-Id unless given."),
    "content_type": Text(128, 1, r"[\x21-\x7e][\x20-\x7e]*", meaning="Content type of the body."),
}
SHA256 = Text(64, 64, r"[0-9a-f]{64}", meaning="SHA-256 of the bytes, in hexadecimal.")
UPLOAD = Record(
    {"sha256": SHA256, "size": Whole(1, MAX_UPLOAD_BYTES, "Bytes of the body.")},
    required=("sha256", "size"),
    name="Upload",
    example={"sha256": sha256(b"").hexdigest(), "size": 52_428_800},
)
LABELS = ListOf(Text(32, 1), 20)
DRAFT = Record(
    {
        "body": Anything("Any JSON value."),
        "body_base64": Base64("Bytes; kept exactly."),
        "body_upload": UPLOAD,
        **OPTIONS,
        "labels": LABELS,
        "headers": MapOf(HEADER, 50, "Kept with the message; no name begins with a colon.", HEADER_NAME),
    },
    exclusive=(("body", "body_base64", "body_upload"), ("delay_ms", "not_before")),
    name="Draft",
    example={"body": {"order": 4711}, "idempotency_key": "order-4711", "priority": "high", "labels": ["eu"]},
)
RAW_OPTIONS: Mapping[str, Kind] = {
    **{name: kind for name, kind in OPTIONS.items() if name not in ("correlation_id", "content_type")},
    "labels": Text(200, meaning="Separated by commas."),
}


def enqueue_one(service: PullService, request: ApiRequest) -> HttpResponse:
    """Accept one message."""
    return _enqueue(service, request, request.body)


def enqueue_raw(service: PullService, request: ApiRequest) -> HttpResponse:
    """Accept the request's own bytes."""
    given: dict[str, Any] = {"body_base64": request.content, **request.query}
    content_type = request.content_type or OCTETS
    given["content_type"] = OPTIONS["content_type"].read("Content-Type", content_type)
    if "labels" in given:
        given["labels"] = LABELS.read("labels", given["labels"].split(",") if given["labels"] else [])
    return _enqueue(service, request, given)


def _enqueue(service: PullService, request: ApiRequest, given: Mapping[str, Any]) -> HttpResponse:
    queue = service.queue_of(request)
    definition, request_key = service.definitions.queue(queue.spec.name), _request_key(request)
    draft = _draft(queue, request, given, "body")
    receipt = accept(queue, definition, draft, fallback_key=request_key)
    if _reused(queue, draft, receipt, draft.idempotency_key or request_key):
        raise KeyReused(receipt.message_id)
    if not (receipt.duplicate or receipt.status.ended):
        service.notify(queue)
    return _accepted(queue, with_result(queue, receipt))


def enqueue_batch(service: PullService, request: ApiRequest) -> HttpResponse:
    """Accept many; each item of the answer is what it would have been alone."""
    queue = service.queue_of(request)
    request_key = _request_key(request)
    outcomes: dict[int, Receipt | MillraceError] = {}
    drafts: dict[int, Draft] = {}
    named: dict[int, str | None] = {}  #: the key that the sender gave outright
    keyless = 0
    for position, given in enumerate(request.body["messages"]):
        path, key = f"messages[{position}]", f"{request_key}:{position}" if request_key else None
        try:
            read = DRAFT.read(path, given)
            if "body_upload" in read:
                raise InvalidField(f"{path}.body_upload", "is not taken in a batch", "one upload in a request")
            ready = _admitted(service, queue, request, read, f"{path}.body", key)
            named[position] = read.get("idempotency_key") or key
            keyless += ready.key_missing
            if ready.filtered:
                outcomes[position] = record_filtered(queue, ready.draft)
            else:
                drafts[position] = ready.draft
        except MillraceError as error:
            outcomes[position] = error
    if keyless:
        count_missing_keys(queue.spec.name, keyless)
    outcomes.update(_told_apart(queue, drafts, named, enqueue_all(queue, list(drafts.values()))))
    if any(isinstance(outcomes[n], Receipt) for n in drafts):
        service.notify(queue)
    return HttpResponse(200, {"items": [_item(outcomes[n], request) for n in range(len(outcomes))]})


def _reused(queue: Queue, draft: Draft, receipt: Receipt, named: str | None, first: Draft | None = None) -> bool:
    """Whether the key that the sender named outright belongs to a message with another body.

    `first` is what of this request that was accepted under the key. A key that the definition reads from the
    body is another matter: what has the same key then is the same event.
    """
    if not (receipt.duplicate and receipt.idempotency_key == named):
        return False
    if receipt.existing is not None:
        return not has_body(queue, receipt.existing, draft.stored or draft.body)
    return first is not None and (first.body, first.stored) != (draft.body, draft.stored)


def has_body(queue: Queue, message: Message, body: bytes | StoredBody) -> bool:
    """Whether a message has this body. A blob is judged by its size and digest."""
    if isinstance(body, bytes):
        return queue.runtime.bodies.is_body_of(message, body)
    if message.body.size != body.size:
        return False
    return (message.body.digest or digest(queue.runtime.bodies.read(message))) == body.digest


def _told_apart(
    queue: Queue, drafts: Mapping[int, Draft], named: Mapping[int, str | None], answers: list[Receipt | MillraceError]
) -> Iterator[tuple[int, Receipt | MillraceError]]:
    """The answers of a batch by their positions, a reused key told apart from a repeat."""
    first: dict[str, Draft] = {}
    for (position, draft), answer in zip(drafts.items(), answers, strict=True):
        if isinstance(answer, Receipt):
            if _reused(queue, draft, answer, named[position], first.get(answer.message_id)):
                answer = KeyReused(answer.message_id)
            else:
                first.setdefault(answer.message_id, draft)
                answer = with_result(queue, answer)
        yield position, answer


def _request_key(request: ApiRequest) -> str | None:
    key: str | None = request.headers.get("Idempotency-Key")
    return key


def _admitted(
    service: PullService,
    queue: Queue,
    request: ApiRequest,
    given: Mapping[str, Any],
    path: str,
    request_key: str | None,
) -> Admitted:
    draft = _draft(queue, request, given, path)
    return admit(service.definitions.queue(queue.spec.name), draft, queue.now(), fallback_key=request_key)


def _item(outcome: Receipt | MillraceError, request: ApiRequest) -> dict[str, Any]:
    if isinstance(outcome, MillraceError):
        return item_of(0, outcome, request.correlation_id)
    return item_of(_status_of(outcome), show_receipt(outcome), request.correlation_id)


def _accepted(queue: Queue, receipt: Receipt) -> HttpResponse:
    location = f"/v1/queues/{queue.spec.name}/messages/{receipt.message_id}"
    return HttpResponse(_status_of(receipt), show_receipt(receipt), headers={"Location": location})


def _status_of(receipt: Receipt) -> int:
    return 200 if receipt.status.ended else 202


def _draft(queue: Queue, request: ApiRequest, given: Mapping[str, Any], path: str) -> Draft:
    body = as_bytes(given, "body")
    stored = own_upload(queue, request, given["body_upload"]) if "body_upload" in given else None
    if body is None and stored is None:
        raise InvalidField(path, "is missing", "body (any JSON value), body_base64 (bytes) or body_upload")
    not_before = given.get("not_before")
    if "delay_ms" in given:
        not_before = queue.now() + int(given["delay_ms"])
    return Draft(
        body or b"",
        stored=stored,
        content_type=given.get("content_type") or ("application/json" if "body" in given else OCTETS),
        headers={**trace_of(request.headers), **given.get("headers", {})},
        idempotency_key=given.get("idempotency_key"),
        key=given.get("key", ""),
        priority=given.get("priority"),
        not_before=not_before,
        project=given.get("project"),
        labels=given.get("labels"),
        correlation_id=given.get("correlation_id") or request.correlation_id,
        source=f"token:{request.principal.name}"[:80],
    )


def own_upload(queue: Queue, request: ApiRequest, given: Mapping[str, Any]) -> StoredBody:
    """The caller's upload of this content: whatever anybody says, its place is made of who they are."""
    sha256 = bytes.fromhex(given["sha256"])
    return upload_of(queue.tenant, queue.spec.name, request.principal.token_id, sha256, given["size"])


#: As large as a header can be: a trace that is malformed is no reason to refuse a message.
_TRACE: Mapping[str, Kind] = {
    "traceparent": Text(10_240, meaning="The sender's W3C trace context, kept with the message; ignored if malformed."),
    "tracestate": Text(10_240, meaning="The rest of it."),
}
_SENT_WITH = {**REQUEST_KEY, **_TRACE}
_LOCATION = {"Location": "The path of the message's status."}
_ACCEPTED = {
    200: RouteReply(
        "The message has ended: a repeat of one that is finished, or one that the queue's filter leaves out.",
        RECEIPT,
        headers=_LOCATION,
    ),
    202: RouteReply("Accepted. The message ends as done or as a dead letter.", RECEIPT, headers=_LOCATION),
}
_ITEMS = items_of("Enqueued", RECEIPT["properties"], optional=("result", "result_base64"))
_BATCH = Record(
    {"messages": ListOf(Later(DRAFT), BATCH, 1)},
    required=("messages",),
    name="DraftBatch",
    example={"messages": [{"body": {"order": 4711}}, {"body": {"order": 4712}, "priority": "high"}]},
)
_REFUSES = (
    *("unknown_queue", "body_too_large", "upload_missing", "upload_refused"),
    *("invalid_message", "idempotency_conflict", "queue_full"),
)
_PATH = "/v1/queues/{queue}/messages"
_SCOPES = (Scope.ENQUEUE,)
ROUTES: tuple[Route[PullService], ...] = (
    Route("POST", _PATH, "enqueue", "messages", "Enqueue a message.", enqueue_one, _ACCEPTED, _SCOPES,
          body=DRAFT, headers=_SENT_WITH, refuses=_REFUSES),
    Route("POST", f"{_PATH}/raw", "enqueue_raw", "messages",
          "Enqueue the bytes of the request's body, of any content type.", enqueue_raw, _ACCEPTED, _SCOPES,
          takes_bytes=True, query=RAW_OPTIONS, headers=_SENT_WITH, refuses=_REFUSES),
    Route("POST", f"{_PATH}/batch", "enqueue_batch", "messages",
          f"Enqueue up to {BATCH} messages; each has an answer of its own.", enqueue_batch,
          {200: RouteReply("One item for each message, in the same order.", _ITEMS)}, _SCOPES,
          body=_BATCH, headers=_SENT_WITH, refuses=_REFUSES),
)  # fmt: skip
