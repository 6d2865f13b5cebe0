"""Poll: find the entries of a queue that may be claimed now, without reading more than it takes.

Reading starts at the head of a lane, so its cost does not grow with the queue's depth. Where keys take turns or
keep their order, the poll steps from key to key instead of reading through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from millrace.engine.laps import Lap, grown
from millrace.engine.places import KeyPlaces
from millrace.engine.queue import Queue
from millrace.engine.shares import Share, note_holders
from millrace.model.cursor import Page
from millrace.model.keys import END, READY, WAITING, due_now, group_of, order_of, priority_prefix
from millrace.model.message import Entry, Place
from millrace.model.queue_spec import Ordering

#: Entries read at most in one lane by one poll; the next poll goes on from there.
SCAN_LIMIT = 5_000
#: Entries that one claim buries or removes: a wave of them must not delay what can run.
DOOMED_AT_ONCE = 3
#: How long a poll may remember that others hold the head of a lane: what is given back early is seen again by then.
HELD_MEMORY_MS = 1_000
#: A head shorter than this is read again: remembering it would save less than a request.
HELD_WORTH_REMEMBERING = 100
#: Entries at the head of an ordered queue that a poll looks past while their senders are still at it.
UNCOMMITTED = 4
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
    """What a poll saw. In a fifo queue it holds either entries to bury, which are at its head, or entries to run."""

    entries: list[Entry] = field(default_factory=list)  #: to be claimed and run, best first
    doomed: dict[Place, Entry] = field(default_factory=dict)  #: expired, or their attempts used up: to be buried
    orphans: dict[Place, Entry] = field(default_factory=dict)  #: entries that will never have a message: to be removed
    next_at: int | None = None  #: when something more may become claimable, as far as the poll could see
    passed: Set[Place] = frozenset()  #: entries to look past: they have no message yet
    left: bool = False  #: entries that may run were left to rivals, whose turn it is
    places: KeyPlaces | None = None  #: of the keys that were met, where keys have an order

    def later(self, at: int) -> None:
        self.next_at = at if self.next_at is None else min(self.next_at, at)


def poll(
    queue: Queue,
    pk: str,
    wanted: int,
    now: int,
    only: Filter = EVERYTHING,
    passed: Set[Place] = frozenset(),
    owner: str = "",
) -> PollResult:
    """Up to `wanted` claimable entries of one partition, best first: two strongly consistent queries as a rule.

    For an `owner` that others race, its share of them.
    """
    found = PollResult(passed=passed)
    match queue.spec.ordering:
        case Ordering.FIFO:
            _from_head(queue, pk, wanted, now, only, found)
        case Ordering.PER_KEY:
            _heads_of_keys(queue, pk, wanted, now, only, found)
        case Ordering.UNORDERED:
            _best(queue, pk, wanted, now, only, found, Share(queue, pk, owner, now))
    return found


def _best(queue: Queue, pk: str, wanted: int, now: int, only: Filter, found: PollResult, share: Share) -> None:
    fair = queue.spec.fair
    width = wanted if fair else wanted * share.width
    candidates = _from_lane(queue, pk, WAITING, due_now(now), width, now, only, found)
    after = READY if only.max_priority is None else priority_prefix(only.max_priority)
    if fair:
        candidates += _fair_ready(queue, pk, after, wanted, now, only, found)
        found.entries = _take_turns(sorted(candidates, key=_rank))[:wanted]
    else:
        candidates += _from_lane(queue, pk, after, READY_END, width, now, only, found)
        found.entries, next_turn = share.pick(sorted(candidates, key=_rank), wanted)
        if next_turn is not None:
            found.left = True
            found.later(next_turn)
    if not candidates and not found.doomed:
        ahead = queue.store.read_lane(pk, due_now(now), WAITING + END, 1)
        for entry in ahead.items:
            found.later(entry.due)


def _rank(entry: Entry) -> tuple[int, str]:
    """Higher priority first, then oldest first."""
    return -entry.priority, order_of(entry.place)


def _from_lane(
    queue: Queue, pk: str, after: str, upto: str, wanted: int, now: int, only: Filter, found: PollResult
) -> list[Entry]:
    """Read a lane from its head until enough can be claimed, past what others hold or this consumer does not want.

    Where thousands are held, or wait to be buried, they are read once a second and not by every poll. A poll that
    reaches its bound says so by `next_at`, and the next one goes on from there.
    """
    candidates: list[Entry] = []
    memory = queue.poll_memory
    bound = (pk, after, only)
    resumed = memory.resume.pop(bound, None)
    cursor: str | None = resumed or after
    scanned, size = 0, wanted
    held = _HeldHead(memory.held, pk, now)
    while cursor is not None and len(candidates) < wanted:
        if scanned >= SCAN_LIMIT:
            memory.resume[bound] = cursor
            found.later(now)
            break
        page = queue.store.read_lane(pk, cursor, upto, size)
        candidates += _claimable(queue, page.items, now, only, found)
        note_holders(memory, pk, page.items, now)
        scanned += len(page.items)
        cursor = held.skip(page, found) if resumed is None else page.next
        size = grown(size)
    held.remember()
    return candidates


class _HeldHead:
    """The head of each priority that nobody can have: held by others, or to be buried. Remembered for a second.

    Only the head: within a priority what comes later lies behind it, so a remembered head hides nothing new.
    """

    def __init__(self, memory: dict[tuple[str, str], tuple[str, int]], pk: str, now: int) -> None:
        self._memory = memory
        self._pk = pk
        self._now = now
        self._lengths: dict[str, int] = {}
        self._ends: dict[str, tuple[str, int]] = {}
        self._open: set[str] = set()  #: priorities in which something free was met

    def skip(self, page: Page[Entry], found: PollResult) -> str | None:
        """Where to read on after a page: behind the head of its priority where that is known to be held."""
        for entry in page.items:
            priority = group_of(entry.place)
            if priority in self._open:
                continue
            if entry.live(self._now) or entry.place in found.doomed:
                until = entry.until if entry.live(self._now) else self._now + HELD_MEMORY_MS
                _, before = self._ends.get(priority, ("", until))
                self._ends[priority] = entry.place.sk, min(before, until)
                self._lengths[priority] = self._lengths.get(priority, 0) + 1
            else:
                self._open.add(priority)
        if page.next is None or not page.items:
            return page.next
        priority = group_of(page.items[-1].place)
        end, until = self._memory.get((self._pk, priority), ("", 0))
        known = priority not in self._open and until > self._now and end > page.next
        if known:
            found.later(until)
            self._ends[priority] = end, min(until, self._ends.get(priority, ("", until))[1])
        return end if known else page.next

    def remember(self) -> None:
        for priority, (end, until) in self._ends.items():
            if self._lengths.get(priority, 0) >= HELD_WORTH_REMEMBERING:
                self._memory[self._pk, priority] = end, min(until, self._now + HELD_MEMORY_MS)


def _claimable(queue: Queue, entries: Iterable[Entry], now: int, only: Filter, found: PollResult) -> list[Entry]:
    """What of these may run; what is to be buried is collected beside it, and what comes later is noted."""
    claimable = []
    for entry in entries:
        if entry.place in found.passed:
            continue
        if entry.live(now):
            found.later(entry.until)
        elif _is_doomed(queue, entry, now):
            found.doomed[entry.place] = entry
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

    A few more than wanted: those whose message is not committed yet do not count. What is to be buried at the head
    comes alone: nothing behind it may start before it is gone.
    """
    page = queue.store.read_lane(pk, READY, READY_END, wanted + UNCOMMITTED + len(found.passed))
    for entry in page.items:
        if entry.place in found.passed:
            continue
        claimable = _claimable(queue, [entry], now, only, found)
        if found.doomed and found.entries:
            found.doomed.clear()
            break
        if (not claimable and not found.doomed) or (found.doomed and claimable):
            break
        found.entries += claimable


def _heads_of_keys(queue: Queue, pk: str, wanted: int, now: int, only: Filter, found: PollResult) -> None:
    """The first entries of each key, from where the last poll stopped and around, so that every key gets its turn.

    Where its bound is reached before it came round, the poll says that there is more to see now.
    """
    places = found.places = KeyPlaces(queue, pk, found.passed, now)
    lap = Lap(queue, pk, READY, READY_END, wanted, places.window)
    for page in lap.pages():
        for entry in page.items:
            if entry.place not in found.passed and places.is_open(entry):
                claimable = _claimable(queue, [entry], now, only, found)
                found.entries += claimable
                places.note(entry, claimable=bool(claimable))
            elif until := places.full_until(group_of(entry.place)):
                found.later(until)
        found.entries = places.within(found.entries, spare=True)
        if len(found.entries) >= wanted:
            break
    if len(found.entries) > wanted or (found.entries and places.window > 1):
        del found.entries[wanted:]
        lap.stop_behind(found.entries[-1])
    if not found.entries and not lap.came_round:
        found.later(now)


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
        for page in Lap(queue, pk, priority, priority + END, wanted).pages():
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


def _take_turns(ranked: list[Entry]) -> list[Entry]:
    """Within a priority one entry of each key, then the second of each, and so on."""
    turn: dict[tuple[int, str], int] = {}
    keyed = []
    for entry in ranked:
        mine = (entry.priority, entry.key)
        turn[mine] = turn.get(mine, -1) + 1
        keyed.append(((-entry.priority, turn[mine], order_of(entry.place)), entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]
