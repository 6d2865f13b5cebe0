"""Poll: find the entries of a queue that may be claimed now, without reading more than it takes.

Reading starts at the head of a lane, so its cost does not grow with the queue's depth. Where keys take turns or
keep their order, the poll steps from key to key instead of reading through them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from millrace.engine.queue import Queue
from millrace.model.cursor import Page
from millrace.model.keys import END, READY, WAITING, due_now, group_of, order_of, priority_prefix
from millrace.model.message import Entry, Place
from millrace.model.queue_spec import Ordering

#: Entries read at most in one partition, for a filter that matches little.
SCAN_LIMIT = 5_000
#: Reads at most while stepping from key to key.
STEPS = 16
#: Entries at the head of an ordered queue that a poll looks past while their senders are still at it.
UNCOMMITTED = 4
#: Reads, and entries in each, of a look for what grew too old.
AGED_STEPS, AGED_PAGE = 32, 25
READY_END = READY + END


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries a consumer wants."""

    project: str | None = None
    labels: tuple[str, ...] = ()  #: all of them
    max_priority: int | None = None

    def matches(self, entry: Entry) -> bool:
        in_project = self.project is None or entry.project == self.project
        labelled = all(label in entry.labels for label in self.labels)
        low_enough = self.max_priority is None or entry.priority <= self.max_priority
        return in_project and labelled and low_enough


EVERYTHING = Filter()


@dataclass(slots=True)
class PollResult:
    """What a poll saw."""

    entries: list[Entry] = field(default_factory=list)  #: to be claimed, best first
    doomed: set[str] = field(default_factory=set)  #: ids among them that have expired or used up their attempts
    next_at: int | None = None  #: when something more may become claimable, as far as the poll could see
    passed: Set[Place] = frozenset()  #: entries to look past: they have no message yet

    def later(self, at: int) -> None:
        self.next_at = at if self.next_at is None else min(self.next_at, at)


def poll(
    queue: Queue, pk: str, wanted: int, now: int, only: Filter = EVERYTHING, passed: Set[Place] = frozenset()
) -> PollResult:
    """Up to `wanted` claimable entries of one partition, best first: two strongly consistent queries as a rule."""
    found = PollResult(passed=passed)
    match queue.spec.ordering:
        case Ordering.FIFO:
            _from_head(queue, pk, wanted, now, only, found)
        case Ordering.PER_KEY:
            _heads_of_keys(queue, pk, wanted, now, only, found)
        case Ordering.UNORDERED:
            _best(queue, pk, wanted, now, only, found)
    return found


def _best(queue: Queue, pk: str, wanted: int, now: int, only: Filter, found: PollResult) -> None:
    candidates = _from_lane(queue, pk, WAITING, due_now(now), wanted, now, only, found)
    after = READY if only.max_priority is None else priority_prefix(only.max_priority)
    if queue.spec.fair:
        candidates += _fair_ready(queue, pk, after, wanted, now, only, found)
    else:
        candidates += _from_lane(queue, pk, after, READY_END, wanted, now, only, found)
    candidates.sort(key=_rank)
    if queue.spec.fair:
        candidates = _take_turns(candidates)
    found.entries = candidates[:wanted]
    if not candidates:
        ahead = queue.store.read_lane(pk, due_now(now), WAITING + END, 1)
        for entry in ahead.items:
            found.later(entry.due)


def _rank(entry: Entry) -> tuple[int, str]:
    """Higher priority first, then oldest first."""
    return -entry.priority, order_of(entry.place)


def _from_lane(
    queue: Queue, pk: str, after: str, upto: str, wanted: int, now: int, only: Filter, found: PollResult
) -> list[Entry]:
    """Read a lane from its head until enough can be claimed, past what others hold or this consumer does not want."""
    candidates: list[Entry] = []
    scanned = 0
    cursor: str | None = after
    size = wanted
    while cursor is not None and len(candidates) < wanted and scanned < SCAN_LIMIT:
        page = queue.store.read_lane(pk, cursor, upto, size)
        candidates += _claimable(queue, page.items, now, only, found)
        scanned += len(page.items)
        cursor = page.next
        size = min(2 * max(size, 25), 500)
    return candidates


def _claimable(queue: Queue, entries: Iterable[Entry], now: int, only: Filter, found: PollResult) -> list[Entry]:
    claimable = []
    for entry in entries:
        if entry.place in found.passed:
            continue
        if entry.live(now):
            found.later(entry.until)
        elif _is_doomed(queue, entry, now):
            found.doomed.add(entry.id)
            claimable.append(entry)
        elif entry.due > now:
            found.later(entry.due)
        elif only.matches(entry):
            claimable.append(entry)
    return claimable


def _is_doomed(queue: Queue, entry: Entry, now: int) -> bool:
    """Too old, or its last worker was lost on the last attempt: it goes to the dead letters, not to a worker."""
    attempts = entry.attempts + entry.lost(now)
    return entry.expires_at <= now or attempts >= queue.spec.delivery.max_attempts


def _from_head(queue: Queue, pk: str, wanted: int, now: int, only: Filter, found: PollResult) -> None:
    """A run of entries from the head of the queue, up to the first that may not be claimed.

    A few more than wanted: those whose message is not committed yet do not count.
    """
    page = queue.store.read_lane(pk, READY, READY_END, wanted + UNCOMMITTED + len(found.passed))
    for entry in page.items:
        if entry.place in found.passed:
            continue
        if not _claimable(queue, [entry], now, only, found):
            break
        found.entries.append(entry)


def _heads_of_keys(queue: Queue, pk: str, wanted: int, now: int, only: Filter, found: PollResult) -> None:
    """The first entry of each key, from a random key onwards and around, so that every key gets its turn.

    Of a key whose first ones are passed by, as many more again: most likely those have no message either.
    """
    passed = Counter(group_of(place) for place in found.passed)
    open_: dict[str, int] = {}
    for page in _steps(queue, pk, READY, READY_END, wanted):
        for entry in page.items:
            group = group_of(entry.place)
            left = open_.get(group, 1 + passed[group])
            if left and entry.place not in found.passed:
                claimable = _claimable(queue, [entry], now, only, found)
                found.entries += claimable
                open_[group] = left - 1 if claimable else 0
        if len(found.entries) >= wanted:
            break
    del found.entries[wanted:]


def _fair_ready(
    queue: Queue, pk: str, after: str, wanted: int, now: int, only: Filter, found: PollResult
) -> list[Entry]:
    """Entries of many keys, of the highest priority first.

    Where the first ones of each key are not enough (others hold them), those behind them in a key have their turn.
    """
    candidates: list[Entry] = []
    while len(candidates) < wanted:
        head = queue.store.read_lane(pk, after, READY_END, wanted)
        if head.next is None:
            return candidates + _claimable(queue, head.items, now, only, found)
        priority = head.items[0].place.sk[: len(priority_prefix(0))]
        of_priority: dict[str, Entry] = {}
        for page in _steps(queue, pk, priority, priority + END, wanted):
            claimable = _claimable(queue, page.items, now, only, found)
            of_priority.update((entry.place.sk, entry) for entry in claimable)
            if len({entry.key for entry in of_priority.values()}) >= wanted:
                break
        if len(of_priority) < wanted:
            behind = _from_lane(queue, pk, priority, priority + END, wanted, now, only, found)
            of_priority.update((entry.place.sk, entry) for entry in behind)
        candidates += of_priority.values()
        after = priority + END
    return candidates


def _steps(queue: Queue, pk: str, first: str, last: str, size: int) -> Iterable[Page[Entry]]:
    """Pages from a random key to the end and around, each time jumping past the key that the page ended in."""
    prefix = first if first != READY else priority_prefix(0)
    start = f"{prefix}{int(queue.runtime.chance() * (1 << 40)):010x}"
    reads = 0
    for begin, end in ((start, last), (first, start)):
        cursor: str | None = begin
        while cursor is not None and reads < STEPS:
            page = queue.store.read_lane(pk, cursor, end, size)
            reads += 1
            yield page
            cursor = group_of(page.items[-1].place) + END if page.next is not None else None


def _take_turns(ranked: list[Entry]) -> list[Entry]:
    """Within a priority one entry of each key, then the second of each, and so on."""
    turn: dict[tuple[int, str], int] = {}
    keyed = []
    for entry in ranked:
        mine = (entry.priority, entry.key)
        turn[mine] = turn.get(mine, -1) + 1
        keyed.append(((-entry.priority, turn[mine], order_of(entry.place)), entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def aged(queue: Queue, pk: str, now: int) -> PollResult:
    """Entries too old to be kept, wherever they lie: the oldest of each priority and key is its first.

    An ordered queue is left out: its oldest is its head, which every poll looks at.
    """
    found = PollResult()
    if queue.spec.ordering.ordered:
        return found
    cursor = READY
    for _ in range(AGED_STEPS):
        page = queue.store.read_lane(pk, cursor, READY_END, AGED_PAGE)
        old = [entry for entry in page.items if entry.expires_at <= now and not entry.live(now)]
        found.entries += old
        if page.next is None:
            break
        cursor = page.next if len(old) == len(page.items) else group_of(page.items[-1].place) + END
    found.doomed = {entry.id for entry in found.entries}
    return found
