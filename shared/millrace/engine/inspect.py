"""Inspect a queue: its numbers, its entries, its claims. Bounded reads however deep the queue is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus
from millrace.model.cursor import Page, check_page, decode_cursor, encode_cursor
from millrace.model.errors import InvalidCursor, InvalidField
from millrace.model.keys import END, READY, WAITING, group_of
from millrace.model.message import Entry
from millrace.model.queue_spec import Ordering

#: Entries of a lane counted one by one in each partition; beyond that the counter counts.
COUNTED = 300
#: Steps from priority to priority while looking for the oldest.
STEPS = 16
LANES = {"ready": READY, "scheduled": WAITING}
EVERY_LANE = "every"


@dataclass(frozen=True, slots=True)
class Stats:
    """A queue in numbers."""

    depth: int  #: unfinished messages, as the counter has them
    ready: int
    scheduled: int
    in_flight: int
    oldest_age_ms: int  #: of the oldest unfinished message seen
    dead_letters: int
    arrived_per_minute: float
    done_per_minute: float
    paused: bool
    exact: bool  #: false when the queue is too deep to count: then `ready` is what the depth leaves over
    by_project: Mapping[str, int] = field(default_factory=dict)  #: of the entries counted
    totals: Mapping[str, int] = field(default_factory=dict)
    open_targets: Mapping[str, int] = field(default_factory=dict)  #: target that is down → when it is probed next
    full_keys: int = 0  #: keys whose places are all taken while messages wait behind them, of the entries counted
    behind_full_keys: int = 0  #: those messages


def stats(queue: Queue) -> Stats:
    """The queue's numbers now: at most two pages of each partition's lanes and a few heads, whatever its depth."""
    now = queue.now()
    state = queue.state(fresh=True)
    counted = [entry for pk in queue.partitions() for lane in LANES.values() for entry in _head(queue, pk, lane)]
    complete = all(_is_complete(pk, lane, counted) for pk in queue.partitions() for lane in LANES.values())
    in_flight = sum(entry.live(now) for entry in counted)
    scheduled = sum(entry.due > now and not entry.live(now) for entry in counted)
    ready = len(counted) - in_flight - scheduled
    if not complete:
        ready = max(ready, state.depth - in_flight - scheduled)
    arrived, done = state.per_minute(now)
    behind = _behind_full_keys(queue, counted, now)
    return Stats(
        depth=len(counted) if complete else state.depth,
        ready=ready,
        scheduled=scheduled,
        in_flight=in_flight,
        oldest_age_ms=max((now - entry.enqueued_at for entry in (*counted, *_oldest(queue))), default=0),
        dead_letters=state.dead_letters(now, queue.spec.retention.dead_letter_seconds),
        arrived_per_minute=arrived,
        done_per_minute=done,
        paused=bool(state.paused_at),
        exact=complete,
        by_project=Counter(entry.project for entry in counted),
        totals={"arrived": state.arrived, "done": state.done, "failed": state.failed, "dead": state.dead},
        open_targets={name: breaker.until for name, breaker in state.breakers.items()},
        full_keys=len(behind),
        behind_full_keys=sum(behind.values()),
    )


def _behind_full_keys(queue: Queue, counted: list[Entry], now: int) -> Counter[str]:
    """How many are ready in each key whose places are taken by entries that run or wait for their next try."""
    behind: Counter[str] = Counter()
    if queue.spec.ordering is Ordering.PER_KEY:
        places = queue.spec.concurrency_per_key or 1
        met: Counter[str] = Counter()
        taken: Counter[str] = Counter()
        for entry in counted:
            key = entry.place.pk + group_of(entry.place)
            met[key] += 1
            ready = status_of(entry, now) is MessageStatus.READY
            taken[key] += met[key] <= places and not ready
            behind[key] += met[key] > places and ready and taken[key] == places
    return +behind


def count_dead(queue: Queue) -> int:
    """The queue's dead letters that were not replayed, by its counter: one read."""
    return queue.state(fresh=True).dead_letters(queue.now(), queue.spec.retention.dead_letter_seconds)


def _head(queue: Queue, pk: str, lane: str) -> tuple[Entry, ...]:
    return queue.store.read_lane(pk, lane, lane + END, COUNTED).items


def _is_complete(pk: str, lane: str, counted: list[Entry]) -> bool:
    return sum(entry.place.pk == pk and entry.place.sk.startswith(lane) for entry in counted) < COUNTED


def _oldest(queue: Queue) -> list[Entry]:
    """The head of each priority: within one, the oldest comes first."""
    heads: list[Entry] = []
    if queue.spec.ordering.ordered or queue.spec.fair:
        return heads
    for pk in queue.partitions():
        after = READY
        for _ in range(STEPS):
            page = queue.store.read_lane(pk, after, READY + END, 1)
            if not page.items:
                break
            heads.append(page.items[0])
            after = group_of(page.items[0].place) + END
    return heads


def list_entries(queue: Queue, lane: str = "ready", *, limit: int = 50, cursor: str | None = None) -> Page[Entry]:
    """A page of one lane, in the order in which it will be worked off; or of `every` lane, shard by shard."""
    check_page(limit)
    if lane not in (EVERY_LANE, *LANES):
        raise InvalidField("lane", f"{lane!r} is unknown", f"{EVERY_LANE}, {' or '.join(LANES)}")
    lanes = list(LANES.values()) if lane == EVERY_LANE else [LANES[lane]]
    return _entries(queue, lanes, f"entries#{lane}", limit, cursor)


def list_claims(queue: Queue, *, limit: int = 50, cursor: str | None = None) -> Page[Entry]:
    """A page of the entries that somebody holds: who, what, since when and until when."""
    return list_by_status(queue, MessageStatus.IN_FLIGHT, limit=limit, cursor=cursor)


def list_by_status(queue: Queue, status: MessageStatus, *, limit: int = 50, cursor: str | None = None) -> Page[Entry]:
    """A page of the entries that `stats` counts as ready, scheduled or in flight, whichever lane they lie in."""
    check_page(limit)
    now = queue.now()
    scope = f"status#{status.value}"
    return _entries(queue, list(LANES.values()), scope, limit, cursor, lambda entry: status_of(entry, now) is status)


def status_of(entry: Entry, now: int) -> MessageStatus:
    """Whether an entry is held, may be claimed, or waits."""
    if entry.live(now):
        return MessageStatus.IN_FLIGHT
    return MessageStatus.SCHEDULED if entry.due > now else MessageStatus.READY


def _entries(
    queue: Queue,
    lanes: list[str],
    kind: str,
    limit: int,
    cursor: str | None,
    keep: Callable[[Entry], bool] | None = None,
) -> Page[Entry]:
    """Walk the lanes partition by partition; a page ends when it is full or enough was read for one answer."""
    scope = f"{kind}#{queue.tenant}#{queue.spec.name}"
    stretches = [(pk, lane) for pk in queue.partitions() for lane in lanes]
    number, after = 0, stretches[0][1]
    if cursor is not None:
        position, after = decode_cursor(scope, cursor, 2)
        if not position.isdecimal() or int(position) >= len(stretches):
            raise InvalidCursor
        number = int(position)
    found: list[Entry] = []
    reads = 0
    while number < len(stretches):
        pk, lane = stretches[number]
        page = queue.store.read_lane(pk, max(after, lane), lane + END, COUNTED if keep else min(limit, 100))
        reads += 1
        for entry in page.items:
            if keep is None or keep(entry):
                found.append(entry)
            if len(found) == limit:
                return Page(tuple(found), encode_cursor(scope, str(number), entry.place.sk))
        if page.next is not None:
            after = page.next
        else:
            number += 1
            after = stretches[number][1] if number < len(stretches) else ""
        if reads >= STEPS and number < len(stretches):
            return Page(tuple(found), encode_cursor(scope, str(number), after))
    return Page(tuple(found), None)
