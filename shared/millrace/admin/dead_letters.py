"""Dead letters for operators: list, show, download, replay one, purge one, and count what a job would find."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from millrace.admin.audit import LAST_TIME, audited
from millrace.admin.service import AdminService
from millrace.engine.counters import flush
from millrace.engine.dead_letters import get_dead_letter, list_dead_letters, purge_dead_letter, replay
from millrace.engine.queue import Queue
from millrace.http.bodies import DOWNLOAD_SUMMARY, DOWNLOADS, RANGE_HEADER, bytes_schemas, download_body_of, show_bytes
from millrace.http.fields import Flag, Kind, Record, Text, Time, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import (
    ATTEMPT,
    DEAD_LETTER,
    DEAD_LETTER_MEMBERS,
    OK,
    PAGE,
    REQUEST_KEY,
    flag,
    list_of,
    number,
    page_of,
    record,
    show_attempt,
    show_dead_letter,
    show_page,
    text,
    time,
)
from millrace.model.errors import AlreadyReplayed, BodyLost, KeyUnavailable, NotFound
from millrace.model.ids import random_token
from millrace.model.message import DeadLetter, DeadLetterFilter, DeadLetterReason
from millrace.model.tokens import Scope

DEAD_LETTER_ID = re.compile(r"(\d{13})\.([A-Za-z0-9]{1,64})", re.ASCII)
#: A larger body is left out of what is shown of a dead letter.
SHOWN_BODY = 256 * 1024
SAMPLE = 10
COUNT_PAGE = 1_000
#: A count that takes longer says how far it came.
COUNT_BUDGET_MS = 8_000
MAX_COUNT = 50_000


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """How many dead letters a filter finds."""

    count: int
    exact: bool  #: false when there was too much to count
    replayed: int  #: of them, replayed before: a job leaves them out unless it says `again`
    sample: tuple[DeadLetter, ...]  #: the oldest
    by_error: Mapping[str, int]
    oldest_at: int
    newest_at: int


def list_page(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A page of a queue's dead letters, newest first."""
    only = dead_letter_filter(request.query)
    return show_page(
        "dead_letters", list_dead_letters(service.queue_of(request), only=only, **request.page), show_dead_letter
    )


def dead_letter_filter(asked: Mapping[str, Any]) -> DeadLetterFilter:
    """A filter from what a request asks for under the names of `FILTER`."""
    return DeadLetterFilter(
        failed_from=max(0, asked.get("failed_from", 0)),
        failed_before=max(0, min(asked.get("failed_before", LAST_TIME), LAST_TIME)),
        reason=DeadLetterReason(asked["reason"]) if "reason" in asked else None,
        error_text=asked.get("error", ""),
        project=asked.get("project"),
        correlation_id=asked.get("correlation_id"),
        key=asked.get("key"),
        fingerprint=asked.get("fingerprint"),
        replayed=asked.get("replayed"),
    )


def show_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """One dead letter with its history, and its body unless that is large or gone."""
    queue, dead_letter = _found(service, request)
    body, problem = _body(queue, dead_letter)
    shown = {
        **show_dead_letter(dead_letter),
        "history": [show_attempt(attempt) for attempt in dead_letter.history],
        **show_bytes("body", body),
        "body_omitted": body is None,
        "body_problem": problem,
    }
    return HttpResponse(200, shown)


def _body(queue: Queue, dead_letter: DeadLetter) -> tuple[bytes | None, str | None]:
    """The body where it is to be shown; else None, and why nobody can read it, now or ever."""
    message = dead_letter.message
    try:
        return queue.runtime.bodies.read(message) if message.body.size <= SHOWN_BODY else None, None
    except BodyLost as error:
        return None, str(error)
    except KeyUnavailable as error:
        return None, f"The KMS key {error.key!r} cannot be used now."


def download_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """The exact bytes of a dead letter's body, also when its message is forgotten."""
    queue, dead_letter = _found(service, request)
    return download_body_of(queue.runtime, dead_letter.message, request.headers.get("Range"))


def replay_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Enqueue it again as a new message; once for each Idempotency-Key, and once in all unless asked for `again`."""
    queue, dead_letter = _found(service, request)
    job = f"one:{request.headers.get('Idempotency-Key') or random_token(service.runtime.entropy)}"
    if dead_letter.replayed_at and dead_letter.replay_job != job and not request.query.get("again", False):
        raise AlreadyReplayed(request.path["dead_letter_id"], dead_letter.replayed_as)
    receipt = replay(queue, dead_letter, job)
    flush(queue)
    shown = {"ok": True, "new_message_id": receipt.message_id, "correlation_id": receipt.correlation_id}
    return HttpResponse(202, shown)


def purge_one(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Delete a dead letter for good."""
    queue, dead_letter = _found(service, request)
    purge_dead_letter(queue, dead_letter.sk)
    return HttpResponse(200, {"ok": True})


def _found(service: AdminService, request: ApiRequest) -> tuple[Queue, DeadLetter]:
    queue, dead_letter_id = service.queue_of(request), request.path["dead_letter_id"]
    found = DEAD_LETTER_ID.fullmatch(dead_letter_id)
    if found is None:
        raise NotFound("dead letter", dead_letter_id[:80])
    return queue, get_dead_letter(queue, f"{found[1]}#{found[2]}")


def dry_run(service: AdminService, request: ApiRequest) -> HttpResponse:
    """What a job with this filter would find: how many, and the oldest of them."""
    found = count_dead_letters(service.queue_of(request), dead_letter_filter(request.body.get("filter", {})))
    shown = {
        "count": found.count,
        "exact": found.exact,
        "replayed": found.replayed,
        "by_error": dict(found.by_error),
        "oldest_at": rfc3339(found.oldest_at),
        "newest_at": rfc3339(found.newest_at),
        "sample": [show_dead_letter(dead_letter) for dead_letter in found.sample],
    }
    return HttpResponse(200, shown)


def count_dead_letters(queue: Queue, only: DeadLetterFilter) -> DeadLetterCount:
    """Count what a job started now would find, oldest first. Reads a page of 1,000 at a time, for 8 s at most."""
    now = queue.now()
    found = replace(only, failed_before=min(only.failed_before, now))
    after: str | None = f"{found.failed_from:013d}"
    upto = f"{found.failed_before:013d}"
    count = replayed = newest_at = seen = 0
    sample: list[DeadLetter] = []
    errors: Counter[str] = Counter()
    while after is not None and seen < MAX_COUNT and queue.now() - now < COUNT_BUDGET_MS:
        page = queue.store.read_dead_letters(queue.tenant, queue.spec.name, after, upto, COUNT_PAGE)
        for dead_letter in filter(found.matches, page.items):
            count += 1
            replayed += bool(dead_letter.replayed_at)
            errors[dead_letter.error_type or dead_letter.reason.value] += 1
            newest_at = dead_letter.failed_at
            if len(sample) < SAMPLE:
                sample.append(dead_letter)
        seen += len(page.items)
        after = page.next
    oldest_at = sample[0].failed_at if sample else 0
    by_error = dict(errors.most_common(10))
    return DeadLetterCount(count, after is None, replayed, tuple(sample), by_error, oldest_at, newest_at)


FILTER: Mapping[str, Kind] = {
    "failed_from": Time(),
    "failed_before": Time(),
    "reason": Text(words=tuple(DeadLetterReason), name="DeadLetterReason"),
    "error": Text(200, meaning="Text in its error."),
    "project": Text(64),
    "correlation_id": Text(64),
    "key": Text(256),
    "fingerprint": Text(16, pattern=r"[0-9a-f]{16}", meaning="A group of equal errors."),
    "replayed": Flag("Only those that were replayed (true) or were not (false)."),
}
FILTER_RECORD = Record(FILTER, name="DeadLetterFilter")
_WHOLE = record(
    "DeadLetterDetails",
    {
        **DEAD_LETTER_MEMBERS,
        "history": list_of(ATTEMPT),
        **bytes_schemas("body", "The body"),
        "body_omitted": flag("Too large to show: download it; or not to be read."),
        "body_problem": text("Why the body cannot be read, now or ever.", null=True),
    },
    optional=("body", "body_base64"),
)
_COUNT = record(
    "DeadLetterCount",
    {
        "count": number("Dead letters that match."),
        "exact": flag("False when there was too much to count."),
        "replayed": number("Of them, replayed before: a job leaves them out unless it says `again`."),
        "by_error": {"type": "object", "additionalProperties": {"type": "integer"}},
        "oldest_at": time(null=True),
        "newest_at": time(null=True),
        "sample": list_of(DEAD_LETTER),
    },
)
_REPLAYED = record("Replayed", {"ok": flag(), "new_message_id": text(), "correlation_id": text()})
_DRY_RUN = Record({"filter": FILTER_RECORD}, name="DryRun", example={"filter": {"reason": "exhausted"}})
_UNKNOWN = ("unknown_queue",)
_PATH = "/admin/queues/{queue}/dead-letters"
_ONE = f"{_PATH}/{{dead_letter_id}}"
_TAG = "dead-letters"
_READ, _OPERATE = (Scope.READ,), (Scope.OPERATE,)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", _PATH, "list_dead_letters", _TAG, "List a queue's dead letters, newest first.", list_page,
          {200: RouteReply("A page of dead letters.", page_of("DeadLetters", "dead_letters", DEAD_LETTER))}, _READ,
          query={**FILTER, **PAGE}, refuses=("invalid_cursor", *_UNKNOWN)),
    Route("GET", _ONE, "show_dead_letter", _TAG, "Show a dead letter with its history and body.", show_one,
          {200: RouteReply("The dead letter.", _WHOLE)}, _READ, refuses=_UNKNOWN),
    Route("GET", f"{_ONE}/body", "download_dead_letter_body", _TAG, DOWNLOAD_SUMMARY, download_one, DOWNLOADS, _READ,
          headers=RANGE_HEADER, refuses=("body_lost", *_UNKNOWN)),
    audited(Route("POST", f"{_ONE}/replay", "replay_dead_letter", _TAG, "Enqueue a dead letter again as a new message.",
                  replay_one, {202: RouteReply("The new message is accepted.", _REPLAYED)}, _OPERATE,
                  headers=REQUEST_KEY, query={"again": Flag("Also where it was replayed before.")},
                  refuses=("already_replayed", "queue_full", "body_lost", "body_too_large", *_UNKNOWN))),
    audited(Route("DELETE", _ONE, "purge_dead_letter", _TAG, "Delete a dead letter for good.", purge_one,
                  {200: RouteReply("The dead letter is deleted.", OK)}, _OPERATE, refuses=_UNKNOWN)),
    Route("POST", "/admin/queues/{queue}/dry-run", "dry_run", "jobs",
          "Count the dead letters that a job with this filter would find; changes nothing.", dry_run,
          {200: RouteReply("What the job would find.", _COUNT)}, _READ, body=_DRY_RUN, refuses=_UNKNOWN),
)  # fmt: skip
