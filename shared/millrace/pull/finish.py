"""Ack, nack, release and extend over HTTP: one claim, or up to a hundred with an answer for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.engine.claim import MAX_LEASE_MS
from millrace.engine.finish import RunFailure, ack, extend, nack, reject, release, snooze
from millrace.engine.queue import Queue
from millrace.handlers.results import RESULT_BYTES
from millrace.http.bodies import as_bytes
from millrace.http.fields import Anything, Base64, Flag, Kind, Later, ListOf, Record, Schema, Text, Whole, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse, item_of
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import items_of, record, text, time, words
from millrace.model.clock import DAY
from millrace.model.errors import InvalidField, MillraceError, StaleClaim
from millrace.model.message import Entry
from millrace.model.tokens import Scope
from millrace.pull.claim_handles import HANDLE_PATTERN, MAX_HANDLE, ClaimHandle
from millrace.pull.service import PullService

BATCH = 100
#: Whatever is asked for, a message waits no longer than it is kept.
MAX_DELAY_MS = 366 * DAY
CLAIM = Text(MAX_HANDLE, 1, HANDLE_PATTERN, meaning="The `claim` of a dequeued message, unchanged.", name="Claim")
EXAMPLE_CLAIM = "c1.WzAsIlIjOTk5OSMwMTk4Il0.q83vEjRWeJCrze8SNFZ4kA"

Given = Mapping[str, Any]
FinishResult = Mapping[str, Any] | MillraceError


@dataclass(frozen=True, slots=True)
class Finish:
    """One request to finish: the claim and what else was given."""

    held: ClaimHandle
    given: Given

    @property
    def entry(self) -> Entry:
        return self.held.entry


def live_entry(queue: Queue, claimed: Entry) -> Entry:
    """The whole entry while it carries this claim. Raises StaleClaim naming the current version."""
    current = queue.store.get_entry(claimed.place)
    if current is None or current.token != claimed.token:
        raise StaleClaim(claimed.id, claimed.version, current.version if current else None)
    return current


def ack_all(_service: PullService, queue: Queue, finishes: Sequence[Finish]) -> list[FinishResult]:
    results = [_result(finish.given) for finish in finishes]
    errors = ack(queue, [finish.entry for finish in finishes], results)
    return [error or _done(finish) for finish, error in zip(finishes, errors, strict=True)]


def check_result(given: Given) -> None:
    """An ack with a result that cannot be kept is refused before anything is finished."""
    if len(_result(given) or b"") > RESULT_BYTES:
        raise InvalidField("result", f"{len(_result(given) or b'')} bytes", f"at most {RESULT_BYTES} bytes")


def _result(given: Given) -> bytes | None:
    return as_bytes(given, "result")


def nack_all(service: PullService, queue: Queue, finishes: Sequence[Finish]) -> list[FinishResult]:
    return [_attempt(_nack, service, queue, finish) for finish in finishes]


def _attempt(
    verb: Callable[[PullService, Queue, Finish], FinishResult], service: PullService, queue: Queue, f: Finish
) -> FinishResult:
    try:
        return verb(service, queue, f)
    except MillraceError as error:
        return error


def _nack(service: PullService, queue: Queue, finish: Finish) -> FinishResult:
    """A failed run: the entry is read first, for what a retry or a dead letter needs of it."""
    entry, given = live_entry(queue, finish.entry), finish.given
    message = queue.store.get_messages([entry.id]).get(entry.id)
    if message is None or message.nonce != entry.nonce:
        raise StaleClaim(entry.id, entry.version, None)
    failure = RunFailure(given.get("error_type", "Nack"), given.get("error", ""))
    if given.get("reject"):
        reject(queue, entry, message, failure, finish.held.lost)
        return {**_done(finish), "outcome": "dead", "retry_at": None}
    retry = nack(queue, entry, message, failure, delay_ms=given.get("delay_ms"), lost=finish.held.lost)
    if retry is None:
        return {**_done(finish), "outcome": "dead", "retry_at": None}
    service.notify(queue, retry.due)
    return {**_done(finish), "outcome": "retry", "retry_at": rfc3339(retry.due)}


def release_all(service: PullService, queue: Queue, finishes: Sequence[Finish]) -> list[FinishResult]:
    errors = release(queue, [finish.entry for finish in finishes])
    service.notify(queue)
    return [error or _done(finish) for finish, error in zip(finishes, errors, strict=True)]


def snooze_all(service: PullService, queue: Queue, finishes: Sequence[Finish]) -> list[FinishResult]:
    return [_attempt(_snooze, service, queue, finish) for finish in finishes]


def _snooze(service: PullService, queue: Queue, finish: Finish) -> FinishResult:
    """Later: the entry is read first, for what its move needs of it."""
    due = snooze(queue, live_entry(queue, finish.entry), queue.now() + finish.given.get("delay_ms", 0))
    service.notify(queue, due)
    return {**_done(finish), "retry_at": rfc3339(due)}


def extend_all(service: PullService, queue: Queue, finishes: Sequence[Finish]) -> list[FinishResult]:
    """Those that ask for the same lease go together. Each answer has a handle that knows the new end of the lease."""
    outcomes: dict[int, FinishResult] = {}
    for lease_ms in {finish.given.get("lease_ms") for finish in finishes}:
        numbers = [n for n, finish in enumerate(finishes) if finish.given.get("lease_ms") == lease_ms]
        for n, extended in zip(numbers, extend(queue, [finishes[n].entry for n in numbers], lease_ms), strict=True):
            outcomes[n] = _extended(service, queue, finishes[n], extended)
    return [outcomes[n] for n in range(len(finishes))]


def _extended(service: PullService, queue: Queue, finish: Finish, extended: Entry | MillraceError) -> FinishResult:
    if isinstance(extended, MillraceError):
        return extended
    handle = service.handles.write(queue, extended, finish.held.lost)
    return {**_done(finish), "claim": handle, "lease_until": rfc3339(extended.until)}


def _done(finish: Finish) -> dict[str, Any]:
    return {"message_id": finish.entry.id, "correlation_id": finish.entry.correlation_id}


@dataclass(frozen=True, slots=True)
class Verb:
    """A way to finish: its fields, what it does with many claims, what each one's answer holds."""

    name: str
    summary: str
    members: Mapping[str, Kind]
    run: Callable[[PullService, Queue, Sequence[Finish]], list[FinishResult]]
    shows: Mapping[str, Schema]
    example: Given
    exclusive: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Given], None] | None = None

    @property
    def kind(self) -> Record:
        name = self.name.capitalize()
        example = {"claim": EXAMPLE_CLAIM, **self.example}
        members = {"claim": CLAIM, **self.members}
        return Record(members, required=("claim",), exclusive=self.exclusive, name=name, example=example)

    def finish(self, service: PullService, queue: Queue, given: Given) -> Finish:
        if self.check:
            self.check(given)
        return Finish(service.handles.read(queue, given["claim"]), given)

    def one(self, service: PullService, request: ApiRequest) -> HttpResponse:
        queue = service.queue_of(request)
        (outcome,) = self.run(service, queue, [self.finish(service, queue, request.body)])
        if isinstance(outcome, MillraceError):
            raise outcome
        return HttpResponse(200, outcome)

    def many(self, service: PullService, request: ApiRequest) -> HttpResponse:
        queue = service.queue_of(request)
        outcomes: dict[int, FinishResult] = {}
        finishes: dict[int, Finish] = {}
        for number_, value in enumerate(request.body["items"]):
            try:
                finishes[number_] = self.finish(service, queue, self.kind.read(f"items[{number_}]", value))
            except MillraceError as error:
                outcomes[number_] = error
        for numbers in rounds(finishes):
            outcomes.update(zip(numbers, self.run(service, queue, [finishes[n] for n in numbers]), strict=True))
        items = [item_of(200, outcomes[n], request.correlation_id) for n in range(len(request.body["items"]))]
        return HttpResponse(200, {"items": items})


def rounds(finishes: Mapping[int, Finish]) -> Iterator[list[int]]:
    """Positions in rounds that name no entry twice: a batch that writes one key twice fails as a whole."""
    left = list(finishes)
    while left:
        first_of = {finishes[n].entry.place: n for n in reversed(left)}
        now = [n for n in left if first_of[finishes[n].entry.place] == n]
        yield now
        left = [n for n in left if n not in now]


_DONE: dict[str, Schema] = {"message_id": text(), "correlation_id": text()}
VERBS = (
    Verb(
        "ack",
        "Finish a claimed message. Repeating an ack that succeeded succeeds again.",
        {"result": Anything("Kept, and returned for repeats of the idempotency key."), "result_base64": Base64()},
        ack_all,
        {},
        {"result": {"invoice": 9}},
        exclusive=(("result", "result_base64"),),
        check=check_result,
    ),
    Verb(
        "nack",
        "Report a failed run: the message is retried after its backoff, or becomes a dead letter.",
        {
            "delay_ms": Whole(0, MAX_DELAY_MS, "Time until the retry; the queue's backoff unless given."),
            "error_type": Text(60),
            "error": Text(4_000, meaning="For people."),
            "reject": Flag("No retry can help: make it a dead letter at once."),
        },
        nack_all,
        {"outcome": words("NackOutcome", ("retry", "dead")), "retry_at": time(null=True)},
        {"error_type": "Timeout", "error": "no answer within 10 s", "delay_ms": 5_000},
    ),
    Verb("release", "Return a claimed message to the queue at once; no attempt is charged.", {}, release_all, {}, {}),
    Verb(
        "snooze",
        "Return a claimed message to the queue for a while; no attempt is charged.",
        {"delay_ms": Whole(0, MAX_DELAY_MS, "Time until it may run again; 0 unless given.")},
        snooze_all,
        {"retry_at": time()},
        {"delay_ms": 60_000},
    ),
    Verb(
        "extend",
        "Extend the lease of a claim.",
        {"lease_ms": Whole(1, MAX_LEASE_MS, "From now on; the queue's own unless given.")},
        extend_all,
        {"claim": text("Send this from now on; the one before still works."), "lease_until": time()},
        {"lease_ms": 60_000},
    ),
)


def _routes(verb: Verb) -> Iterator[Route[PullService]]:
    path, name = f"/v1/queues/{{queue}}/{verb.name}", verb.name.capitalize()
    batch = Record(
        {"items": ListOf(Later(verb.kind), BATCH, 1)},
        required=("items",),
        name=f"{name}Batch",
        example={"items": [{"claim": EXAMPLE_CLAIM}]},
    )
    alone = RouteReply("The claim was live, and this is done.", record(f"{name}Result", {**_DONE, **verb.shows}))
    items = RouteReply("One item for each claim, in the same order.", items_of(name, {**_DONE, **verb.shows}))
    yield Route(
        "POST", path, verb.name, "claims", verb.summary, verb.one, {200: alone}, (Scope.CONSUME,),
        body=verb.kind, refuses=("unknown_queue", "stale_claim"),
    )  # fmt: skip
    yield Route(
        "POST", f"{path}/batch", f"{verb.name}_batch", "claims",
        f"{verb.summary} Up to {BATCH} claims; each has an answer of its own.", verb.many, {200: items},
        (Scope.CONSUME,), body=batch, refuses=("unknown_queue",),
    )  # fmt: skip


ROUTES: tuple[Route[PullService], ...] = tuple(route for verb in VERBS for route in _routes(verb))
