"""Why a queue stands still, or does less than it could: each reason in words, with what an operator can do."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.definitions.explain import in_words
from millrace.engine.inspect import Stats
from millrace.engine.queue import Queue
from millrace.http.fields import Schema, rfc3339
from millrace.http.schemas import JsonObject, list_of, record, text, time, words
from millrace.model.clock import MINUTE
from millrace.model.keys import END, READY
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import BreakerState, QueueState

KINDS = ("paused", "target_down", "first_in_line", "concurrency", "full_keys", "rate", "full", "nobody_works")
ACTIONS = ("resume", "reset_breakers", "none")
#: Messages that are ready for longer than this, while nobody holds any, need a word.
UNTOUCHED_MS = 2 * MINUTE


def reasons(queue: Queue, found: Stats, state: QueueState) -> list[JsonObject]:
    """Everything that holds the queue up now. One read where a first-in-first-out queue waits for its head."""
    now = queue.now()
    return [*_by_decision(found, state, now), *_by_limits(queue, found, state, now), *_unexplained(queue, found, state)]


def _reason(kind: str, says: str, *, until: int = 0, action: str = "none", target: str = "") -> JsonObject:
    return {"kind": kind, "says": says, "until": rfc3339(until), "action": action, "target": target}


def _by_decision(found: Stats, state: QueueState, now: int) -> Iterator[JsonObject]:
    if found.paused:
        who, since = state.paused_by or "somebody", _for(now - state.paused_at)
        says = f"standing still because {who} paused it {since} ago; messages are accepted and wait until it is resumed"
        yield _reason("paused", says, action="resume")
    for target, breaker in sorted(state.breakers.items()):
        says = breaker_in_words(target, breaker, now)
        yield _reason("target_down", says, until=breaker.until, action="reset_breakers", target=target)


def breaker_in_words(target: str, breaker: BreakerState, now: int) -> str:
    since = f" for {_for(now - breaker.since)}" if breaker.since else ""
    return f"standing still because {target} is down{since}, next look {_until(breaker.until, now)}"


def _by_limits(queue: Queue, found: Stats, state: QueueState, now: int) -> Iterator[JsonObject]:
    spec = queue.spec
    if spec.ordering is Ordering.FIFO and found.scheduled and (due := _head_due(queue)) > now:
        behind = f"{found.depth - 1} behind it wait"
        says = f"standing still because the first in line failed and {behind}, next try {_until(due, now)}"
        yield _reason("first_in_line", says, until=due)
    if found.ready and found.in_flight >= spec.max_concurrency:
        says = f"{found.ready} wait because {found.in_flight} run at the same time, as many as max_concurrency allows"
        yield _reason("concurrency", says)
    if found.behind_full_keys:
        each = spec.concurrency_per_key or 1
        keys = (
            f"{found.full_keys} key{'s have' if found.full_keys > 1 else ' has'} {each} in hand or waiting for a retry"
        )
        yield _reason("full_keys", f"{found.behind_full_keys} wait because {keys}, as many as their queue allows")
    if found.ready and spec.rate_per_second and state.pace_at > now:
        rate = f"its rate is {spec.rate_per_second:g} a second"
        says = f"{found.ready} wait because {rate}, next start {_until(state.pace_at, now)}"
        yield _reason("rate", says, until=state.pace_at)
    if state.depth >= spec.retention.max_depth:
        says = f"new messages are refused (503) because it holds {state.depth}, as many as max_depth allows"
        yield _reason("full", says)


def _head_due(queue: Queue) -> int:
    page = queue.store.read_lane(queue.partitions()[0], READY, READY + END, 1)
    return page.items[0].due if page.items else 0


def _unexplained(queue: Queue, found: Stats, state: QueueState) -> Iterator[JsonObject]:
    explained = found.paused or state.breakers
    untouched = found.ready and not found.in_flight and not found.done_per_minute
    if untouched and not explained and found.oldest_age_ms > UNTOUCHED_MS:
        ready = f"{found.ready} are ready, the oldest came {_for(found.oldest_age_ms)} ago"
        yield _reason("nobody_works", f"{ready}, and nobody takes them: does a worker run for {queue.spec.name}?")


def _for(ms: int) -> str:
    return in_words(max(1, ms // 1000) * 1000)


def _until(at: int, now: int) -> str:
    wait_s = max(0, -(-(at - now) // 1000))
    return f"in {wait_s} s" if wait_s else "now"


STANDING_STILL: Schema = list_of(
    record(
        "StandingStill",
        {
            "kind": words("StandingStillKind", KINDS),
            "says": text("The reason in words."),
            "until": time("When it is looked at again.", null=True),
            "action": words("StandingStillAction", ACTIONS),
            "target": text("The target that is down."),
        },
    )
)
