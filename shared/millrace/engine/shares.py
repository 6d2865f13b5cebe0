"""Shares: owners that race for the head of a lane part it between them, instead of all trying for the same entries.

An owner that lost a claim knows its rivals: their names stand in the claims that it met. For a while it leaves each
entry first to one of them all, chosen by a hash that everybody computes alike, then to the next, and so on. Whoever's
turn it is takes it; nobody's turn is far away, so an owner that went away keeps nothing waiting. No message is
exchanged and nothing is stored: owners that disagree race as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from zlib import crc32

from millrace.engine.queue import PollMemory, Queue
from millrace.model.keys import order_of
from millrace.model.message import Entry
from millrace.stores.interface import Refused, WriteResult

#: After a lost claim an owner shares for so long; rivals not seen for as long are forgotten.
SHARING_MS = 5_000
#: Rivals that were not met yet count for so long.
UNMET_MS = 1_000
#: An entry that may run is left to each owner for so long before the next may take it: about a poll and a claim.
TURN_MS = 50
#: All turns together: after this an entry is anybody's, however many rivals there are.
ALL_TURNS_MS = 500
#: Times as many entries are read as are wanted, at most, to find one's own among them.
MAX_WIDTH = 10
#: Beyond so many names those not seen lately are forgotten.
MANY_RIVALS = 100
GOLDEN = 0x9E3779B1


def note_holders(memory: PollMemory, pk: str, entries: Iterable[Entry], now: int) -> None:
    """Remember who holds live claims of a partition."""
    rivals = memory.rivals.setdefault(pk, {})
    rivals.update((entry.owner, now) for entry in entries if entry.live(now))
    if len(rivals) > MANY_RIVALS:
        memory.rivals[pk] = _seen_lately(rivals, now)


def _seen_lately(rivals: dict[str, int], now: int) -> dict[str, int]:
    return {name: at for name, at in rivals.copy().items() if now - at < SHARING_MS}


def note_losses(memory: PollMemory, outcomes: Sequence[WriteResult[Entry]], wanted: Sequence[Entry], now: int) -> None:
    """Remember that claims were lost to others, and to whom.

    Where most were lost there are more rivals than were met: as many again are taken for granted, for a second.
    """
    lost = [one for one, outcome in zip(wanted, outcomes, strict=True) if isinstance(outcome, Refused)]
    if not lost:
        return
    pk = lost[0].place.pk
    memory.lost_at[pk] = now
    note_holders(memory, pk, [one.current for one in outcomes if isinstance(one, Refused) and one.current], now)
    rivals = memory.rivals[pk]
    if 2 * len(lost) > len(wanted):
        unmet = min(len(rivals) + 1, MAX_WIDTH - 1 - len(rivals))
        rivals.update((f"unmet {lost[0].token} {n}", now - SHARING_MS + UNMET_MS) for n in range(unmet))


class Share:
    """What one owner takes of a partition, by whose turn it is."""

    def __init__(self, queue: Queue, pk: str, owner: str, now: int) -> None:
        memory = queue.poll_memory
        self._now = now
        self._own = crc32(owner.encode())
        self._rivals: list[int] = []
        if owner and now - memory.lost_at.get(pk, -SHARING_MS) < SHARING_MS:
            rivals = _seen_lately(memory.rivals[pk], now)
            self._rivals = [crc32(name.encode()) for name in rivals if name != owner]
        self.width = min(len(self._rivals) + 1, MAX_WIDTH)

    def pick(self, ranked: list[Entry], wanted: int) -> tuple[list[Entry], int | None]:
        """Of entries in their order, those to claim, and when the turn comes for those left to others.

        Priority stays exact: where one of a priority is left to somebody else, none of a lower one is taken.
        """
        if not self._rivals:
            return ranked[:wanted], None
        step = min(TURN_MS, ALL_TURNS_MS // len(self._rivals))
        chosen: list[Entry] = []
        for _, same in groupby(ranked, key=lambda entry: entry.priority):
            turns = [(self._turn(entry), entry) for entry in same]
            due_at = [(_since(entry) + turn * step, turn, entry) for turn, entry in turns]
            mine = sorted((turn, order_of(e.place), e) for at, turn, e in due_at if at <= self._now)
            chosen += [entry for *_, entry in mine][: wanted - len(chosen)]
            left = [at for at, *_ in due_at if at > self._now]
            if left or len(chosen) == wanted:
                return _in_order(chosen, ranked), min(left, default=None)
        return _in_order(chosen, ranked), None

    def _turn(self, entry: Entry) -> int:
        """How many rivals come before this owner: the one with the highest score is the first."""
        seed = crc32(entry.id.encode())
        own = _score(seed, self._own)
        return sum(_score(seed, rival) > own for rival in self._rivals)


def _score(seed: int, owner: int) -> int:
    mixed = (seed ^ owner) * GOLDEN & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) * GOLDEN & 0xFFFFFFFF


def _since(entry: Entry) -> int:
    """Since when an entry that is free may run."""
    return max(entry.enqueued_at, entry.due, entry.until)


def _in_order(chosen: list[Entry], ranked: list[Entry]) -> list[Entry]:
    places = {entry.place for entry in chosen}
    return [entry for entry in ranked if entry.place in places]
