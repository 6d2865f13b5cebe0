"""Dead letters grouped by their error: what is wrong, how often, since when.

Groups are counted from the dead letters themselves, newest first, and nothing is written for them: a counter for each
group would cost every dead letter a write more. A request counts up to 10,000 for at most 4 s and says where to go on;
it reads what it counts (100,000 dead letters of 1 KB are ten requests and 25,000 read units, some 0.3 cents).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millrace.admin.dead_letters import FILTER, dead_letter_filter
from millrace.admin.service import AdminService
from millrace.engine.queue import Queue
from millrace.http.fields import rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import PAGE, JsonObject, dead_letter_id, flag, list_of, number, record, text, time
from millrace.model.cursor import decode_cursor, encode_cursor
from millrace.model.fingerprints import error_pattern
from millrace.model.message import DeadLetter, DeadLetterFilter
from millrace.model.tokens import Scope

#: Dead letters counted by one request, and how long it may take.
MAX_GROUPED, GROUP_BUDGET_MS = 10_000, 4_000
READ_PAGE = 1_000
#: The largest groups of an answer; what is in smaller ones is only counted.
MAX_GROUPS = 200
SAMPLE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters that failed alike."""

    count: int
    first_at: int
    last_at: int
    sample: DeadLetter  #: the newest


@dataclass(frozen=True, slots=True)
class Grouped:
    """What one request counted."""

    groups: tuple[DeadLetterGroup, ...]  #: the largest first
    counted: int
    next: str | None  #: there are older ones that were not counted: go on from here


def list_groups(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Dead letters by error, the largest group first."""
    found = group_dead_letters(
        service.queue_of(request), dead_letter_filter(request.query), cursor=request.query.get("cursor")
    )
    shown = [_show(group) for group in found.groups[:MAX_GROUPS]]
    others = sum(group.count for group in found.groups[MAX_GROUPS:])
    answer = {"groups": shown, "others": others, "counted": found.counted}
    return HttpResponse(200, {**answer, "complete": found.next is None, "next": found.next})


def group_dead_letters(queue: Queue, only: DeadLetterFilter, *, cursor: str | None = None) -> Grouped:
    """Count by error, newest first, until there are no more or the request's bounds are reached."""
    scope = f"groups#{queue.tenant}#{queue.spec.name}"
    began, after = queue.now(), f"{only.failed_from:013d}"
    upto: str | None = decode_cursor(scope, cursor, 1)[0] if cursor else f"{only.failed_before:013d}"
    groups: dict[str, DeadLetterGroup] = {}
    seen = counted = 0
    while upto is not None and seen < MAX_GROUPED and queue.now() - began < GROUP_BUDGET_MS:
        page = queue.store.read_dead_letters(queue.tenant, queue.spec.name, after, upto, READ_PAGE, newest_first=True)
        kept = [one for one in page.items if only.matches(one) and one.ttl * 1000 > began]
        _count(groups, kept)
        seen += len(page.items)
        counted += len(kept)
        upto = page.next
    largest = sorted(groups.values(), key=lambda group: (-group.count, -group.last_at))
    return Grouped(tuple(largest), counted, upto and encode_cursor(scope, upto))


def _count(groups: dict[str, DeadLetterGroup], dead_letters: Iterable[DeadLetter]) -> None:
    for dead_letter in dead_letters:
        at = dead_letter.failed_at
        group = groups.get(dead_letter.fingerprint) or DeadLetterGroup(0, at, at, dead_letter)
        groups[dead_letter.fingerprint] = replace(group, count=group.count + 1, first_at=at)


def _show(group: DeadLetterGroup) -> JsonObject:
    sample = group.sample
    return {
        "fingerprint": sample.fingerprint,
        "error_type": sample.error_type or sample.reason.value,
        "error": error_pattern(sample.error),
        "count": group.count,
        "first_seen": rfc3339(group.first_at),
        "last_seen": rfc3339(group.last_at),
        "sample": {
            "id": dead_letter_id(sample.sk),
            "message_id": sample.message.id,
            "error": sample.error[:SAMPLE_CHARACTERS],
        },
    }


_GROUP = record(
    "DeadLetterGroup",
    {
        "fingerprint": text("Fits the filter `fingerprint` of lists and jobs."),
        "error_type": text(),
        "error": text("The error's text with `…` for ids, numbers and quoted values."),
        "count": number(),
        "first_seen": time(),
        "last_seen": time(),
        "sample": record("DeadLetterSample", {"id": text(), "message_id": text(), "error": text()}),
    },
)
_GROUPS = record(
    "DeadLetterGroups",
    {
        "groups": list_of(_GROUP),
        "others": number("Dead letters in groups too small to be listed."),
        "counted": number("Dead letters that this answer is about, the newest."),
        "complete": flag("False when there are older ones: ask again with `next` and add up."),
        "next": text("Where to go on counting.", null=True),
    },
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/queues/{queue}/dead-letters/groups", "list_dead_letter_groups", "dead-letters",
          "Count a queue's dead letters by error.", list_groups,
          {200: RouteReply("The groups, the largest first.", _GROUPS)}, (Scope.READ,),
          query={**FILTER, "cursor": PAGE["cursor"]}, refuses=("invalid_cursor", "unknown_queue")),
)  # fmt: skip
