"""The calls of the API, each written once as steps."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from millrace.client.errors import RequestRefused, refusal_from
from millrace.client.model import (
    ClaimedMessage,
    EnqueueReceipt,
    ExtendedClaim,
    Nacked,
    NewMessage,
    VersionedState,
    time_of,
)
from millrace.client.steps import Reply, Send, Steps, exchange
from millrace.client.transfers import fits_request, upload
from millrace.client.transport import Side
from millrace.model.clock import DAY

JSON_TYPE, OCTETS = "application/json", "application/octet-stream"
JSON = {"Content-Type": JSON_TYPE}
#: Of a large body in one request.
PART_BYTES = 1024 * 1024
#: A long poll's answer may come this much later than asked for.
SLACK_S = 15.0
STALE = (409,)
#: The API takes no longer delay; a message waits no longer than it is kept anyway.
MAX_DELAY_MS = 366 * DAY


def call(
    side: Side, method: str, path: str, document: Any = None, *, repeatable: bool = True, **options: Any
) -> Steps[Any]:
    """One exchange of JSON."""
    done = options.pop("done_when_repeated", ())
    if document is not None:
        options = {
            **options,
            "content": json.dumps(document).encode(),
            "headers": {**JSON, **options.get("headers", {})},
        }
    reply: Reply = yield from exchange(
        side.account.retries, Send(method, path, **options), repeatable=repeatable, done_when_repeated=done
    )
    return json.loads(reply.content) if reply.content else None


def _lines(found: Any) -> list[Mapping[str, Any] | RequestRefused]:
    return [refusal_from(i["http_status"], i["problem"], {}) if "problem" in i else i for i in found["items"]]


def _queue(queue: str, *rest: str) -> str:
    return "/".join(("/v1/queues", queue, *rest))


def request_key() -> dict[str, str]:
    """Names the request, so that repeating it makes no second message."""
    return {"Idempotency-Key": f"client:{uuid.uuid4()}"}


def _document(message: NewMessage) -> dict[str, Any]:
    if isinstance(message.body, bytes | bytearray | memoryview):
        return {"body_base64": base64.b64encode(message.body).decode(), **message.options()}
    return {"body": message.body, **message.options()}


def enqueue_message(side: Side, queue: str, message: NewMessage) -> Steps[EnqueueReceipt]:
    """Enqueue one message; one that is too large for a request is uploaded first."""
    if isinstance(message.body, bytes | bytearray | memoryview):
        if not fits_request(message.body, message.content_type or OCTETS):
            return (yield from _enqueue_uploaded(side, queue, message, bytes(message.body), OCTETS))
        if not message.headers:
            return (yield from _send_bytes(side, queue, message))
    content = json.dumps(_document(message)).encode()
    if not fits_request(content, JSON_TYPE):
        return (yield from _enqueue_uploaded(side, queue, message, *_as_bytes(message.body)))
    headers = {**JSON, **request_key()}
    found = yield from call(side, "POST", _queue(queue, "messages"), headers=headers, content=content)
    return EnqueueReceipt.of(found)


def _as_bytes(body: Any) -> tuple[bytes, str]:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), OCTETS
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), JSON_TYPE


def _enqueue_uploaded(
    side: Side, queue: str, message: NewMessage, content: bytes, content_type: str
) -> Steps[EnqueueReceipt]:
    """A repeat of its idempotency key transfers nothing again."""
    headers = request_key()
    named = yield from upload(side, queue, content, message.idempotency_key)
    document = {"content_type": content_type, **message.options(), "body_upload": named}
    return EnqueueReceipt.of((yield from call(side, "POST", _queue(queue, "messages"), document, headers=headers)))


def _send_bytes(side: Side, queue: str, message: NewMessage) -> Steps[EnqueueReceipt]:
    options = message.options()
    headers = {**request_key(), "Content-Type": options.pop("content_type", OCTETS)}
    if correlation_id := options.pop("correlation_id", None):
        headers["X-Correlation-Id"] = correlation_id
    if "labels" in options:
        options["labels"] = ",".join(options["labels"])
    query = {name: str(value) for name, value in options.items()}
    path = _queue(queue, "messages", "raw")
    found = yield from call(
        side, "POST", path, query=query, headers=headers, content=bytes(message.body), timeout_s=60.0
    )
    return EnqueueReceipt.of(found)


def enqueue(
    side: Side,
    queue: str,
    body: Any,
    *,
    idempotency_key: str | None = None,
    delay_ms: int | None = None,
    not_before: datetime | None = None,
    priority: int | str | None = None,
    key: str | None = None,
    project: str | None = None,
    labels: Sequence[str] | None = None,
    correlation_id: str | None = None,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Steps[EnqueueReceipt]:
    """Enqueue one message: bytes as they are, anything else as JSON. Safe to be repeated by itself."""
    message = NewMessage(
        body,
        idempotency_key=idempotency_key,
        delay_ms=delay_ms,
        not_before=not_before,
        priority=priority,
        key=key,
        project=project,
        labels=None if labels is None else tuple(labels),
        correlation_id=correlation_id,
        content_type=content_type,
        headers=headers or {},
    )
    return (yield from enqueue_message(side, queue, message))


def enqueue_all(side: Side, queue: str, messages: Sequence[NewMessage]) -> Steps[list[EnqueueReceipt | RequestRefused]]:
    """Enqueue up to a hundred messages: a receipt or a refusal for each, in their order."""
    document = {"messages": [_document(message) for message in messages]}
    found = yield from call(side, "POST", _queue(queue, "messages", "batch"), document, headers=request_key())
    return [line if isinstance(line, RequestRefused) else EnqueueReceipt.of(line) for line in _lines(found)]


def claim(
    side: Side,
    queue: str,
    *,
    max: int = 1,  # noqa: A002 (as the API calls it)
    wait_ms: int = 0,
    lease_ms: int | None = None,
    owner: str | None = None,
    project: str | None = None,
    labels: Sequence[str] = (),
    max_priority: int | str | None = None,
    with_state: bool = False,
    with_input: bool = False,
) -> Steps[list[ClaimedMessage]]:
    """Claim messages. A call whose answer was lost is not repeated: its messages come back when their lease ends."""
    only = {"project": project, "labels": list(labels) or None, "max_priority": max_priority}
    asked = {
        "max": max,
        "wait_ms": wait_ms,
        "lease_ms": lease_ms,
        "owner": owner,
        "filter": {name: value for name, value in only.items() if value is not None} or None,
        "with_state": with_state or None,
        "with_input": with_input or None,
        "bodies": "base64",
    }
    document = {name: value for name, value in asked.items() if value is not None}
    timeout_s = wait_ms / 1000 + SLACK_S
    found = yield from call(side, "POST", _queue(queue, "dequeue"), document, repeatable=False, timeout_s=timeout_s)
    return [ClaimedMessage.of(queue, one) for one in found["messages"]]


def ack(side: Side, queue: str, claim: str, result: Any = None) -> Steps[None]:
    """Record that a claimed message is done. Raises ClaimLost."""
    yield from call(side, "POST", _queue(queue, "ack"), {"claim": claim, **_result(result)})


def _result(result: Any) -> dict[str, Any]:
    if isinstance(result, bytes | bytearray):
        return {"result_base64": base64.b64encode(result).decode()}
    return {} if result is None else {"result": result}


def nack(
    side: Side,
    queue: str,
    claim: str,
    *,
    error_type: str = "",
    error: str = "",
    delay_ms: int | None = None,
    reject: bool = False,
) -> Steps[Nacked]:
    """Record a failed run: it is retried after its backoff, or ends as a dead letter. Raises ClaimLost."""
    asked: dict[str, Any] = {"claim": claim, "error": _cut(error, 4_000)}
    if error_type:
        asked["error_type"] = _cut(error_type, 60)
    if delay_ms is not None:
        asked["delay_ms"] = min(delay_ms, MAX_DELAY_MS)
    if reject:
        asked["reject"] = True
    found = yield from call(side, "POST", _queue(queue, "nack"), asked, done_when_repeated=STALE)
    return Nacked(found.get("outcome", "retry"), time_of(found.get("retry_at")))


def _cut(text: str, limit: int) -> str:
    """As much of a text as fits into `limit` bytes."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def release(side: Side, queue: str, claim: str) -> Steps[None]:
    """Give a claimed message back at once, charging no attempt. Raises ClaimLost."""
    yield from call(side, "POST", _queue(queue, "release"), {"claim": claim}, done_when_repeated=STALE)


def snooze(side: Side, queue: str, claim: str, delay_ms: int = 0) -> Steps[datetime | None]:
    """Give a claimed message back for a while, charging no attempt: until when, if known. Raises ClaimLost."""
    path, asked = _queue(queue, "snooze"), {"claim": claim, "delay_ms": min(delay_ms, MAX_DELAY_MS)}
    found = yield from call(side, "POST", path, asked, done_when_repeated=STALE)
    return time_of(found.get("retry_at"))


def extend(side: Side, queue: str, claim: str, lease_ms: int | None = None) -> Steps[ExtendedClaim]:
    """Hold a claim for longer: until when, and its new handle. Raises ClaimLost."""
    asked = {"claim": claim} if lease_ms is None else {"claim": claim, "lease_ms": lease_ms}
    found = yield from call(side, "POST", _queue(queue, "extend"), asked)
    return ExtendedClaim.of(found)


def extend_all(
    side: Side, queue: str, claims: Sequence[tuple[str, int]]
) -> Steps[list[ExtendedClaim | RequestRefused]]:
    """Hold up to a hundred claims for longer, each with its lease: until when, or why not."""
    items = [{"claim": claim, "lease_ms": lease_ms} for claim, lease_ms in claims]
    found = yield from call(side, "POST", _queue(queue, "extend", "batch"), {"items": items})
    return [line if isinstance(line, RequestRefused) else ExtendedClaim.of(line) for line in _lines(found)]


def read_state(side: Side, queue: str, claim: str) -> Steps[VersionedState]:
    """The workflow state of a claimed message."""
    found = yield from call(side, "GET", _queue(queue, "state"), headers={"X-Millrace-Claim": claim})
    return VersionedState(found["state"], found["state_version"])


def write_state(side: Side, queue: str, claim: str, state: Any, version: int) -> Steps[VersionedState]:
    """Replace the workflow state read at `version`. Raises StateConflict or ClaimLost."""
    asked = {"claim": claim, "state": state, "version": version}
    found = yield from call(side, "PUT", _queue(queue, "state"), asked)
    return VersionedState(found["state"], found["state_version"])


def status(side: Side, queue: str, message_id: str) -> Steps[Mapping[str, Any]]:
    """A message's status and history by its id. Raises ResourceNotFound."""
    found: Mapping[str, Any] = yield from call(side, "GET", _queue(queue, "messages", message_id))
    return found


@dataclass(slots=True)
class BodyParts:
    """A body that comes in parts, so that a large one needs little memory."""

    side: Side
    path: str
    part_bytes: int = PART_BYTES
    headers: Mapping[str, str] = field(default_factory=dict)
    read: int = 0
    size: int | None = None

    def following(self) -> Steps[bytes | None]:
        if self.size is not None and self.read >= self.size:
            return None
        headers = {**self.headers, "Range": f"bytes={self.read}-{self.read + self.part_bytes - 1}"}
        reply = yield from exchange(
            self.side.account.retries, Send("GET", self.path, headers=headers, timeout_s=60.0), repeatable=True
        )
        self.read += len(reply.content)
        whole = reply.headers.get("content-range", "").rpartition("/")[2]
        self.size = int(whole) if whole else self.read
        return reply.content


def stream_body(side: Side, queue: str, message_id: str, *, part_bytes: int = PART_BYTES) -> BodyParts:
    """A message's exact bytes, part by part."""
    return BodyParts(side, _queue(queue, "messages", message_id, "body"), part_bytes)


def read_body(side: Side, queue: str, message_id: str) -> Steps[bytes]:
    """A message's exact bytes, whole."""
    return (yield from _whole(stream_body(side, queue, message_id)))


def read_input(side: Side, queue: str, claim: str) -> Steps[Any]:
    """What a handler is given of a claimed message. Raises ClaimLost."""
    parts = BodyParts(side, _queue(queue, "input"), headers={"X-Millrace-Claim": claim})
    return json.loads((yield from _whole(parts)))


def _whole(parts: BodyParts) -> Steps[bytes]:
    whole = bytearray()
    while (part := (yield from parts.following())) is not None:
        whole += part
    return bytes(whole)


def queues(side: Side) -> Steps[list[Mapping[str, Any]]]:
    """The queues that messages can be sent to or taken from."""
    found = yield from call(side, "GET", "/v1/queues")
    return list(found["queues"])
