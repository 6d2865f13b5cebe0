"""Dequeue over HTTP, and the workflow state under a claim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from millrace.admission.rendering import handler_input
from millrace.engine.bodies import wait_to_read
from millrace.engine.claim import MAX_CLAIMS, MAX_LEASE_MS, OWNER_BYTES, Claim, body_of
from millrace.engine.drafts import priority_number
from millrace.engine.finish import RunFailure, reject, release, snooze
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.engine.workflow_state import (
    MAX_STATE_BYTES,
    decrypted,
    own_workflow_state,
    read_workflow_state,
    write_workflow_state,
)
from millrace.handlers.controls import Reject
from millrace.history.log import HistoryEvent
from millrace.http.bodies import DOWNLOADS, RANGE_HEADER, bytes_schemas, download, download_body_of, show_bytes
from millrace.http.fields import Anything, Either, Flag, ListOf, Record, Text, Whole, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import (
    ENTRY_MEMBERS,
    MESSAGE_MEMBERS,
    flag,
    list_of,
    number,
    record,
    show_entry,
    show_message,
    text,
    time,
    words,
)
from millrace.model.errors import BodyLost, InvalidRequest, KeyUnavailable, MillraceError, StaleClaim, StoreUnavailable
from millrace.model.message import DeadLetterReason, Entry, Message, WorkflowState
from millrace.model.queue_spec import MAX_PRIORITY, Ordering
from millrace.model.tokens import Scope
from millrace.pull.dispatcher import Demand
from millrace.pull.enqueue import PRIORITY_WORD
from millrace.pull.finish import CLAIM, EXAMPLE_CLAIM, live_entry
from millrace.pull.service import PullService

MAX_WAIT_MS = 20_000
#: Messages in one answer, as Lambda encodes it: it returns 6 MiB at most, and the rest of the answer needs some.
ANSWER_BYTES = 6 * 1024 * 1024 - 64 * 1024
JSON_SUFFIXES = ("/json", "+json")

FILTER = Record(
    {
        "project": Text(64),
        "labels": ListOf(Text(32, 1), 20, meaning="A message needs all of them."),
        "max_priority": Either((PRIORITY_WORD, Whole(0, MAX_PRIORITY))),
    },
    name="DequeueFilter",
)
DEQUEUE = Record(
    {
        "max": Whole(1, MAX_CLAIMS, "Messages at most; 1 unless given."),
        "wait_ms": Whole(0, MAX_WAIT_MS, "How long to wait for the first message; 0 unless given."),
        "lease_ms": Whole(1, MAX_LEASE_MS, "How long the claim holds unless extended; the queue's own unless given."),
        "owner": Text(OWNER_BYTES, 1, meaning="Who works on it, for people to see; the token's name unless given."),
        "filter": FILTER,
        "with_state": Flag("Include the workflow state."),
        "with_input": Flag("Include what a handler is given, in place of the body, where the queue has a type."),
        "bodies": Text(words=("json", "base64", "none"), meaning="json: as JSON where the body is JSON, else base64."),
    },
    name="Dequeue",
    example={"max": 10, "wait_ms": 20_000, "lease_ms": 60_000, "owner": "worker-7"},
)


def dequeue(service: PullService, request: ApiRequest) -> HttpResponse:
    """Claim messages, waiting for the first where asked to."""
    queue = service.queue_of(request)
    given = request.body
    demand = Demand(
        given.get("owner") or _owner(request),
        given.get("max", 1),
        given.get("lease_ms"),
        _filter(given.get("filter", {})),
        request.principal.token_id,
    )
    claimed = service.dispatcher.take(queue, demand, given.get("wait_ms", 0))
    try:
        answer = _Answer(service, queue, given)
        surplus = answer.add(claimed.claims)
    except BaseException:
        # The caller does not learn of these claims: release them rather than let their leases run out.
        release(queue, [held.entry for held in claimed.claims])
        raise
    queue.record(HistoryEvent.STARTED, answer.started)
    if surplus:
        release(queue, [held.entry for held in surplus])
        service.notify(queue)
    return HttpResponse(200, {"messages": answer.messages, "next_at": rfc3339(claimed.next_at)})


def _owner(request: ApiRequest) -> str:
    return request.principal.name.encode()[:OWNER_BYTES].decode("utf-8", "ignore")


def _filter(given: Mapping[str, Any]) -> Filter:
    most = given.get("max_priority")
    return Filter(given.get("project"), given.get("labels", ()), None if most is None else priority_number(most))


class _Answer:
    """The messages that fit into one answer, at least one, without their bodies; then the bodies that fit too."""

    def __init__(self, service: PullService, queue: Queue, given: Mapping[str, Any]) -> None:
        self._service = service
        self._queue = queue
        self._with_state = given.get("with_state", False)
        self._definition = service.definitions.queue(queue.spec.name)
        self._with_input = given.get("with_input", False) and self._definition.message_type is not None
        self._bodies = given.get("bodies", "json")
        self._room = ANSWER_BYTES
        self._unreadable: StoreUnavailable | None = None  #: why some are not shown
        self.messages: list[dict[str, Any]] = []
        self.started: list[Entry] = []

    def add(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Show as many as fit; the rest. One whose body is lost becomes a dead letter, and is in neither; one that
        cannot be read now waits. Raises StoreUnavailable where that left nothing to show.
        """
        shown, seen = self._fitting(claims)
        for held, delivery in shown:
            if self._with_content(held, delivery):
                self.messages.append(delivery)
                self.started.append(held.entry)
        if self._unreadable is not None and not self.messages:
            raise self._unreadable
        return claims[seen:]

    def _fitting(self, claims: Sequence[Claim]) -> tuple[list[tuple[Claim, dict[str, Any]]], int]:
        """Those that fit, without their bodies, and how many were looked at."""
        shown: list[tuple[Claim, dict[str, Any]]] = []
        for position, held in enumerate(claims):
            state = self._shown_state(held)
            if state is None:
                continue
            delivery = {
                "claim": self._service.handles.write(self._queue, held.entry, held.lost),
                "attempt": held.attempt,
                **show_entry(held.entry),
                **show_message(held.message),
                "body_omitted": True,
                "execution_timeout_ms": int(self._queue.spec.execution_timeout_seconds * 1000),
                "max_attempts": self._queue.spec.delivery.max_attempts,
                "ordering": self._queue.spec.ordering.value,
                **({"input_omitted": True} if self._with_input else {}),
                **state,
            }
            size = encoded_bytes(delivery)
            if shown and size > self._room:
                return shown, position
            self._room -= size
            shown.append((held, delivery))
        return shown, len(claims)

    def _shown_state(self, held: Claim) -> dict[str, Any] | None:
        """The workflow state, where it is wanted; None where it cannot be read, now or ever."""
        if not self._with_state:
            return {}
        try:
            return _state(_document(self._queue, held.message))
        except KeyUnavailable as error:
            self._put_off(held, error)
        except BodyLost as error:
            _bury(self._queue, held, error)
        return None

    def _put_off(self, held: Claim, error: StoreUnavailable) -> None:
        """Give back what cannot be read now. It has not started: no attempt is charged."""
        self._unreadable = error
        with suppress(MillraceError):
            snooze(self._queue, held.entry, self._queue.now() + wait_to_read(held.entry.deliveries))

    def _with_content(self, held: Claim, delivery: dict[str, Any]) -> bool:
        """Add the body, or the handler's input, where it is wanted and fits; False where there is none to be had."""
        if held.message.body.size > self._room or (self._bodies == "none" and not self._with_input):
            return True
        try:
            content = self._content(held)
        except (BodyLost, Reject) as error:
            _bury(self._queue, held, error)
            return False
        except StoreUnavailable as error:
            self._put_off(held, error)
            return False
        size = encoded_bytes(content)
        if size <= self._room:
            self._room -= size
            delivery |= content
        return True

    def _content(self, held: Claim) -> dict[str, Any]:
        body = body_of(self._queue, held)
        if self._with_input:
            return {"input": handler_input(self._definition, held.message, body), "input_omitted": False}
        is_json = held.message.content_type.split(";")[0].strip().lower().endswith(JSON_SUFFIXES)
        as_json = self._bodies == "json" and is_json
        return {**show_bytes("body", body, as_json=as_json), "body_omitted": False}


def _bury(queue: Queue, held: Claim, error: BodyLost | Reject) -> None:
    """A message without a body or an input can never be done. If that cannot be written, its claim runs out."""
    reason = DeadLetterReason.BODY_LOST if isinstance(error, BodyLost) else DeadLetterReason.REJECTED
    failure = RunFailure(type(error).__name__, str(error))
    with suppress(MillraceError):
        reject(queue, held.entry, held.message, failure, held.lost, reason)


def encoded_bytes(document: Mapping[str, Any]) -> int:
    """What a document takes in a Lambda's answer: as text of JSON that is written as JSON once more.

    Counted as Python up to 3.11 writes it there, every character beyond ASCII as an escape: the longest form.
    """
    return len(json.dumps(json.dumps(document, ensure_ascii=False, separators=(",", ":"))))


def _document(queue: Queue, message: Message) -> WorkflowState:
    return decrypted(queue, message.id, own_workflow_state(queue.store.get_records(message.id), message.nonce))


def _state(document: WorkflowState) -> dict[str, Any]:
    if not document.version:
        return {"state": None, "state_version": 0}
    return {"state": json.loads(document.content), "state_version": document.version}


def download_input(service: PullService, request: ApiRequest) -> HttpResponse:
    """What a handler is given of a claimed message, as JSON, or its body where the queue has no type."""
    queue = service.queue_of(request)
    entry = live_entry(queue, service.handles.read(queue, request.headers.get("X-Millrace-Claim", "")).entry)
    message = queue.store.get_messages([entry.id]).get(entry.id)
    if message is None or message.nonce != entry.nonce:
        raise StaleClaim(entry.id, entry.version, None)
    definition = service.definitions.queue(queue.spec.name)
    if definition.message_type is None:
        return download_body_of(service.runtime, message, request.headers.get("Range"))
    body = service.runtime.bodies.read(message)
    try:
        given = handler_input(definition, message, body)
    except Reject as problem:
        raise InvalidRequest(problem.reason) from problem
    content = json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()
    return download("application/json", content, request.headers.get("Range"))


def read_state(service: PullService, request: ApiRequest) -> HttpResponse:
    """The workflow state under a live claim."""
    queue = service.queue_of(request)
    entry = service.handles.read(queue, request.headers.get("X-Millrace-Claim", "")).entry
    return HttpResponse(200, _state(read_workflow_state(queue, entry)))


def write_state(service: PullService, request: ApiRequest) -> HttpResponse:
    """Replace the workflow state that was read at a version."""
    queue = service.queue_of(request)
    entry = live_entry(queue, service.handles.read(queue, request.body["claim"]).entry)
    content = json.dumps(request.body["state"], ensure_ascii=False, separators=(",", ":")).encode()
    return HttpResponse(200, _state(write_workflow_state(queue, entry, content, request.body["version"])))


_DELIVERY = record(
    "Delivery",
    {
        "claim": text("Send this with ack, nack, release and extend."),
        "attempt": number("Which run this is, from 1."),
        **ENTRY_MEMBERS,
        **MESSAGE_MEMBERS,
        **bytes_schemas("body", "The body"),
        "body_omitted": flag("The body is too large for this answer, or was not asked for: download it."),
        "execution_timeout_ms": number("A run that takes longer has failed."),
        "max_attempts": number("So many runs it has in all."),
        "ordering": words("Ordering", Ordering),
        "input": {"description": "What a handler is given: the queue's mapping of the message, or the typed message."},
        "input_omitted": flag("The input is too large for this answer: download it."),
        "state": {"description": "Workflow state; null where none was written."},
        "state_version": number(),
    },
    optional=("body", "body_base64", "input", "input_omitted", "state", "state_version"),
)
_DELIVERIES = record("Deliveries", {"messages": list_of(_DELIVERY), "next_at": time(null=True)})
_STATE = record(
    "WorkflowState",
    {"state": {"description": "Any JSON value."}, "state_version": number("0 where none was written.")},
    example={"state": {"step": 2}, "state_version": 1},
)
_WRITE_STATE = Record(
    {"claim": CLAIM, "state": Anything("Any JSON value."), "version": Whole(0, 10**9, "As read; 0 for none yet.")},
    required=("claim", "state", "version"),
    name="WriteState",
    example={"claim": EXAMPLE_CLAIM, "state": {"step": 2}, "version": 0},
)
_PATH = "/v1/queues/{queue}"
_SCOPES = (Scope.CONSUME,)
ROUTES: tuple[Route[PullService], ...] = (
    Route("POST", f"{_PATH}/dequeue", "dequeue", "claims",
          f"Claim messages; waits up to {MAX_WAIT_MS // 1000} s for the first where asked to.", dequeue,
          {200: RouteReply("The claimed messages, highest priority first; none is no error.", _DELIVERIES)}, _SCOPES,
          body=DEQUEUE, refuses=("unknown_queue", "too_many_waiting")),
    Route("GET", f"{_PATH}/input", "download_input", "claims",
          "Download what a handler is given of a claimed message, as JSON; a large one comes in parts.", download_input,
          DOWNLOADS, _SCOPES, headers={"X-Millrace-Claim": CLAIM, **RANGE_HEADER},
          refuses=("unknown_queue", "stale_claim", "body_lost")),
    Route("GET", f"{_PATH}/state", "read_state", "claims", "Read the workflow state of a claimed message.", read_state,
          {200: RouteReply("The state and its version.", _STATE)}, _SCOPES, headers={"X-Millrace-Claim": CLAIM},
          refuses=("unknown_queue", "stale_claim")),
    Route("PUT", f"{_PATH}/state", "write_state", "claims",
          f"Replace the workflow state of a claimed message; at most {MAX_STATE_BYTES} bytes.", write_state,
          {200: RouteReply("The state as it is now.", _STATE)}, _SCOPES, body=_WRITE_STATE,
          refuses=("unknown_queue", "stale_claim", "stale_state")),
)  # fmt: skip
