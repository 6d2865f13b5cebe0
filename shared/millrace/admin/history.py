"""A queue's history: depth, age, arrivals, endings and failures of the last hour, day or two weeks.

Drawn from the samples that the sweep keeps (`millrace.worker.samples`) and from how the queue stands now. Two queries:
two weeks are at most 361 items below 1 KB, 91 read units.
"""

from __future__ import annotations

from millrace.admin.service import AdminService
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.http.fields import Text, rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import JsonObject, list_of, number, record, text, time
from millrace.model.clock import DAY, MINUTE
from millrace.model.queue_samples import (
    HOUR,
    SAMPLE_MS,
    SAMPLE_TTL_SECONDS,
    QueueSample,
    SeriesPoint,
    first_sample,
    sample_of,
    series,
)
from millrace.model.tokens import Scope

#: Range → how long it is, and one step of it.
RANGES = {"hour": (HOUR, SAMPLE_MS), "day": (DAY, 15 * MINUTE), "two_weeks": (14 * DAY, 2 * HOUR)}


def show_history(service: AdminService, request: ApiRequest) -> HttpResponse:
    """A queue's numbers over time, in even steps."""
    queue, name = service.queue_of(request), request.query.get("range", "day")
    length, step = RANGES[name]
    end = (queue.now() // step + 1) * step
    start = end - length
    samples = _samples(queue, start)
    shown = {
        "range": name,
        "step_seconds": step // 1000,
        "known_since": rfc3339(samples[0].at),
        "points": [_show(point) for point in series(samples, start, end, step)],
    }
    return HttpResponse(200, shown)


def _samples(queue: Queue, start: int) -> list[QueueSample]:
    """The samples from `start` on and the last one before it, and the queue as it stands."""
    found, state, now = stats(queue), queue.state(), queue.now()
    own = (queue.tenant, queue.spec.name)
    kept = queue.store.read_samples(*own, start - HOUR)
    if not kept or kept[0].at >= start:  # it stood empty for an hour before: its last sample may be days old
        kept = queue.store.read_samples(*own, now - SAMPLE_TTL_SECONDS * 1000)
    if not kept and (before := first_sample(state, now)) is not None:
        kept = [before]
    return [*kept, sample_of(state, now, depth=found.depth, oldest_age_ms=found.oldest_age_ms)]


def _show(point: SeriesPoint) -> JsonObject:
    return {
        "at": rfc3339(point.at),
        "depth": point.depth,
        "oldest_age_ms": point.oldest_age_ms,
        "arrived": point.arrived,
        "done": point.done,
        "failed": point.failed,
        "dead": point.dead,
    }


def _maybe(meaning: str) -> JsonObject:
    return {"type": ["integer", "null"], "description": meaning}


_POINT = record(
    "HistoryPoint",
    {
        "at": time("Where the step begins."),
        "depth": _maybe("The most unfinished messages in the step; null where nothing is known."),
        "oldest_age_ms": _maybe("The highest age of the oldest unfinished message in it."),
        "arrived": number("Messages accepted."),
        "done": number(),
        "failed": number("Runs that failed, whatever came of their messages."),
        "dead": number("Messages that became dead letters."),
    },
)
_HISTORY = record(
    "QueueHistory",
    {
        "range": text(),
        "step_seconds": number(),
        "known_since": time("The oldest sample that counts."),
        "points": list_of(_POINT),
    },
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/queues/{queue}/history", "show_queue_history", "operations",
          "Show a queue's depth, age, arrivals, endings and failures over time.", show_history,
          {200: RouteReply("The history in even steps.", _HISTORY)}, (Scope.READ,),
          query={"range": Text(words=tuple(RANGES), meaning="`day` unless given.")}, refuses=("unknown_queue",)),
)  # fmt: skip
