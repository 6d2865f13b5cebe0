"""Laps: a poll's way from key to key, in which every key gets its turn however many there are."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.engine.queue import Queue
from millrace.model.cursor import Page
from millrace.model.keys import END, READY, group_of, priority_prefix
from millrace.model.message import Entry

#: Reads at most while going from key to key; the next poll goes on from there.
STEPS = 16
#: Entries of one read at most.
MAX_PAGE = 500


def grown(size: int) -> int:
    """The next page of a poll that goes on."""
    return min(2 * max(size, 25), MAX_PAGE)


class Lap:
    """A way through the keys of a lane: begins where the last one stopped, jumps past the key that a page ended in.

    Pages grow where keys are short, so that ten thousand of them take a few reads, and shrink where they are long.
    Of a key the first `each` entries are read, before or after the end of a page.
    """

    def __init__(self, queue: Queue, pk: str, first: str, last: str, wanted: int, each: int = 1) -> None:
        self._queue = queue
        self._pk = pk
        self._first = first
        self._last = last
        self._size = self._wanted = max(wanted, each)
        self._each = each
        self.came_round = False

    def pages(self) -> Iterator[Page[Entry]]:
        """Up to `STEPS` pages; `came_round` says whether every key was seen."""
        memory = self._queue.poll_memory.laps
        place = (self._pk, self._first)
        start = memory.get(place) or self._random_start()
        reads = seen = 0  #: of the key in which the page before ended
        for begin, end in ((start, self._last), (self._first, start)):
            cursor: str | None = begin
            while cursor is not None:
                if reads == STEPS:
                    return
                page = self._queue.store.read_lane(self._pk, cursor, end, self._size)
                reads += 1
                cursor, resume = None, self._first if end == self._last else start
                if page.next is not None:
                    key = group_of(page.items[-1].place)
                    seen = self._seen_of(key, page, seen)
                    whole = seen >= self._each
                    cursor, resume = (key + END, key + END) if whole else (page.next, key)
                    seen = 0 if whole else seen
                memory[place] = resume
                self._fit(page)
                yield page
        self.came_round = True

    @staticmethod
    def _seen_of(key: str, page: Page[Entry], before: int) -> int:
        """How many of the key in which a page ends were seen; `before` of them by the page that it continues."""
        here = sum(group_of(entry.place) == key for entry in page.items)
        return here + before if here == len(page.items) else here

    def stop_behind(self, entry: Entry) -> None:
        """Begin the next lap behind this entry's key: those that were read after it have not had their turn."""
        self._queue.poll_memory.laps[self._pk, self._first] = group_of(entry.place) + END

    def _random_start(self) -> str:
        prefix = self._first if self._first != READY else priority_prefix(0)
        return f"{prefix}{int(self._queue.runtime.chance() * (1 << 40)):010x}"

    def _fit(self, page: Page[Entry]) -> None:
        keys = len({group_of(entry.place) for entry in page.items})
        if keys * self._each >= self._size // 4:
            self._size = grown(self._size)
        else:
            self._size = max(self._wanted, self._size // 2)
