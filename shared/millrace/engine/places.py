"""Places: how many messages of a key are in somebody's hands at the same time.

The first n entries of a key that have not ended hold its places; `per_key` is n = 1. Entries ahead only disappear, so
no counter is needed, with one exception: an entry that its sender lays late, ahead of one that is held already. Where
a queue states its number (`concurrency_per_key`), whoever claims therefore reads the key again *after* the claim.
Of any n + 1 claims the last one sees the n others, and is given back before it starts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set

from millrace.engine.finish import release
from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.keys import END, group_of
from millrace.model.message import Entry, Place

#: So many messages of a key may be laid ahead of one that is held, and it is still seen: the most that four senders
#: of full batches can have between taking their numbers and laying their entries.
LATE = 100
#: Entries of one read at most.
PAGE = 500
#: A key with more claims than places is left alone for so long, and up to as long again by chance.
FULL_MS = 200
#: Beyond so many keys that were full, those that may be asked again are forgotten.
MANY_FULL = 1_000


class KeyPlaces:
    """One poll's view of the keys that it meets: which of their entries may be claimed."""

    def __init__(self, queue: Queue, pk: str, passed: Set[Place], now: int) -> None:
        self._limited = queue.spec.concurrency_per_key is not None
        self._count = queue.spec.concurrency_per_key or 1
        self._passed = Counter(group_of(place) for place in passed)
        self._full = queue.poll_memory.full
        self._pk = pk
        self._now = now
        self._left: dict[str, int] = {}
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._ahead: dict[Place, int] = {}

    @property
    def window(self) -> int:
        """So many entries of each key must be seen before a poll may go on to the next."""
        return self._count + max(self._passed.values(), default=0) if self._limited else 1

    def is_open(self, entry: Entry) -> bool:
        """It is among the first of its key, as far as anybody can tell before its message is read."""
        group = group_of(entry.place)
        left = self._left.setdefault(group, 0 if self.full_until(group) else self._count + self._passed[group])
        if not left and self._limited:
            self._running[group] += entry.live(self._now)
        return left > 0

    def full_until(self, group: str) -> int:
        """When to look at a key again whose places were taken after it was read; 0 for at once."""
        until = self._full.get((self._pk, group), 0)
        return until if until > self._now else 0

    def note(self, entry: Entry, *, claimable: bool) -> None:
        """An open entry may run, or does not: then it holds a place, and in a `per_key` queue blocks its key."""
        group = group_of(entry.place)
        self._left[group] -= 1
        self._ahead[entry.place] = self._waiting[group]
        if claimable:
            return
        if not self._limited:
            self._left[group] = 0
        elif entry.live(self._now):
            self._running[group] += 1
        else:
            self._waiting[group] += 1

    def within(self, entries: Iterable[Entry], *, spare: bool = False) -> list[Entry]:
        """Of entries in their order, those that have a place. With `spare` as many more as were passed by in the key:
        most likely the first ones have no message either."""
        used: Counter[str] = Counter()
        kept = []
        for entry in entries:
            group = group_of(entry.place)
            room = self._count - self._running[group] - self._ahead[entry.place]
            if room > 0 and spare:
                room += self._passed[group]
            if used[group] < room:
                used[group] += 1
                kept.append(entry)
        return kept


def keep_within(queue: Queue, pk: str, taken: Sequence[Entry], passed: int) -> set[str]:
    """Tokens of claims just taken that may start, by reading their keys again; the others are given back, uncharged.

    Costs a query where keys are short, one for each key where they are long, and no write unless somebody was faster.
    """
    count = queue.spec.concurrency_per_key
    if count is None or not taken:
        return {entry.token for entry in taken}
    now = queue.now()
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(taken, key=lambda entry: entry.place.sk):
        groups[group_of(entry.place)].append(entry)
    try:
        heads = _heads(queue, pk, sorted(groups), count + passed + LATE)
    except StoreUnavailable:
        release(queue, taken)
        raise
    kept: set[str] = set()
    for group, mine in groups.items():
        live = {entry.token for entry in heads.get(group, ()) if entry.live(now)}
        others = live - {entry.token for entry in mine}
        fitting = [entry.token for entry in mine if entry.token in live][: max(0, count - len(others))]
        kept.update(fitting)
        if len(fitting) < len(mine):
            _remember_full(queue, pk, group, now)
    too_many = [entry for entry in taken if entry.token not in kept]
    if too_many:
        release(queue, too_many)
    return kept


def _heads(queue: Queue, pk: str, groups: list[str], width: int) -> dict[str, list[Entry]]:
    """The first `width` entries of each group, which lie in this order; neighbours come with one read."""
    heads: dict[str, list[Entry]] = {}
    while groups:
        page = queue.store.read_lane(pk, groups[0], groups[-1] + END, min(max(width, 4 * len(groups)), PAGE))
        seen: dict[str, list[Entry]] = {group: [] for group in groups}
        for entry in page.items:
            if (group := group_of(entry.place)) in seen:
                seen[group].append(entry)
        if page.next is None:
            return heads | seen
        last = group_of(page.items[-1].place)
        whole = [group for group in groups if group < last or (group == last and len(seen[group]) >= width)]
        heads |= {group: seen[group] for group in whole}
        groups = groups[len(whole) :]
    return heads


def _remember_full(queue: Queue, pk: str, group: str, now: int) -> None:
    full = queue.poll_memory.full
    if len(full) >= MANY_FULL:
        for key in [key for key, until in full.items() if until <= now]:
            del full[key]
    full[pk, group] = now + FULL_MS + int(queue.runtime.chance() * FULL_MS)
