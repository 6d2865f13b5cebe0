"""Bodies too large for a request or an answer: how to transfer one to the bucket, or from it."""

from __future__ import annotations

from millrace.engine.drafts import spaced_key
from millrace.engine.queue import Queue
from millrace.http.fields import Record, Whole, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import flag, number, record, text, time
from millrace.model.errors import BodyTooLarge, KeyReused, StaleClaim, UploadRefused
from millrace.model.ids import keyed_message_id
from millrace.model.message import StoredBody
from millrace.model.tokens import Scope
from millrace.model.uploads import MAX_UPLOAD_BYTES, URL_LIFE_MS
from millrace.pull.enqueue import IDEMPOTENCY_KEY, SHA256, UPLOAD, has_body, own_upload
from millrace.pull.finish import CLAIM, live_entry
from millrace.pull.service import PullService

REQUEST = Record(
    {
        "sha256": SHA256,
        "size": Whole(1, MAX_UPLOAD_BYTES, "Bytes of the body."),
        "idempotency_key": IDEMPOTENCY_KEY,
    },
    required=("sha256", "size"),
    name="UploadRequest",
    example=UPLOAD.example,
)


def request_upload(service: PullService, request: ApiRequest) -> HttpResponse:
    """How to transfer a body; nothing is to be transferred where it lies there, or its message does."""
    queue = service.queue_of(request)
    if service.definitions.queue(queue.spec.name).message_type is not None:
        raise UploadRefused(queue.spec.name)
    if queue.spec.encrypt:
        raise UploadRefused(queue.spec.name, encrypted=True)
    if request.body["size"] > queue.spec.max_body_bytes:
        raise BodyTooLarge(request.body["size"], queue.spec.max_body_bytes)
    upload = own_upload(queue, request, request.body)
    known = _is_known(queue, request.body.get("idempotency_key"), upload)
    now = queue.now()
    ticket = None if known else service.runtime.uploads.ticket(upload, now)
    shown = {
        "uploaded": ticket is None,
        "method": ticket.method if ticket else None,
        "url": ticket.url if ticket else None,
        "headers": dict(ticket.headers) if ticket else {},
        "expires_at": rfc3339(now + URL_LIFE_MS) if ticket else None,
    }
    return HttpResponse(200, shown)


def _is_known(queue: Queue, key: str | None, upload: StoredBody) -> bool:
    """Whether a message of this key has this body: then it is a repeat. Raises KeyReused where it has another.

    Where its window ends before the enqueue, that finds no upload, and the caller asks again.
    """
    if not key:
        return False
    message_id = keyed_message_id(queue.tenant, queue.spec.name, spaced_key("", key))
    message = queue.store.get_messages([message_id]).get(message_id)
    if message is None or message.dedupe_until <= queue.now():
        return False
    if not has_body(queue, message, upload):
        raise KeyReused(message_id)
    return True


def request_download(service: PullService, request: ApiRequest) -> HttpResponse:
    """Where to read a claimed message's body, if it lies in the bucket as it came."""
    queue = service.queue_of(request)
    entry = live_entry(queue, service.handles.read(queue, request.headers.get("X-Millrace-Claim", "")).entry)
    message = queue.store.get_messages([entry.id]).get(entry.id)
    if message is None or message.nonce != entry.nonce:
        raise StaleClaim(entry.id, entry.version, None)
    body = message.body
    alone = service.runtime.uploads.alone(body)
    shown = {
        "url": service.runtime.uploads.link(body) if alone else None,
        "size": body.size,
        "digest": body.digest.hex() if alone else None,
        "expires_at": rfc3339(queue.now() + URL_LIFE_MS) if alone else None,
    }
    return HttpResponse(200, shown)


_UPLOAD = record(
    "UploadTicket",
    {
        "uploaded": flag("The bytes are there: enqueue them. Then the members below are null or empty."),
        "method": text("Of the request that transfers them.", null=True),
        "url": text("Where to; anybody who has it can write these bytes, and no others.", null=True),
        "headers": {"type": "object", "additionalProperties": text(), "description": "To be sent exactly so."},
        "expires_at": time("Begin the transfer before this.", null=True),
    },
)
_DOWNLOAD = record(
    "Download",
    {
        "url": text("Where from, with or without a Range; null: read the body of the message instead.", null=True),
        "size": number(),
        "digest": text("The first 16 bytes of its SHA-256, in hexadecimal.", null=True),
        "expires_at": time("Begin the transfer before this.", null=True),
    },
)
_PATH = "/v1/queues/{queue}"
ROUTES: tuple[Route[PullService], ...] = (
    Route("POST", f"{_PATH}/uploads", "request_upload", "messages",
          "Ask how to upload a body that is too large for a request; then enqueue it as `body_upload`.", request_upload,
          {200: RouteReply("How to transfer it, or that it is there.", _UPLOAD)}, (Scope.ENQUEUE,), body=REQUEST,
          refuses=("unknown_queue", "body_too_large", "upload_refused", "idempotency_conflict")),
    Route("GET", f"{_PATH}/download", "request_download", "claims",
          "Ask where to download the body of a claimed message.", request_download,
          {200: RouteReply("Where it can be read.", _DOWNLOAD)}, (Scope.CONSUME,), headers={"X-Millrace-Claim": CLAIM},
          refuses=("unknown_queue", "stale_claim")),
)  # fmt: skip
