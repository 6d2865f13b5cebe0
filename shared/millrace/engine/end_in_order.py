"""The end of messages of a first-in-first-out queue that were done in one call, or alone.

Whatever happens, what has ended is the beginning of them: ended in any other order, an earlier message could run again
after a later one had ended. So some are deleted in one transaction, all or none, then the next; where one is refused
or gets no answer, they are deleted one after another, up to the first that is not out for sure.
"""

from __future__ import annotations

from collections.abc import Sequence

from millrace.engine.finish import Ended, end
from millrace.engine.queue import Queue
from millrace.history.log import HistoryEvent
from millrace.model.errors import MillraceError, StaleClaim
from millrace.model.ids import random_token
from millrace.model.message import Entry
from millrace.stores.interface import Applied, Unknown

#: A transaction takes as long as two deletes, at twice the units of each: two messages gain nothing by it.
FEWEST_TOGETHER = 3
#: Larger ones are no faster where a partition is busy: each one that is throttled is billed, and done anew as a whole.
MOST_TOGETHER = 10
#: What gets no answer is repeated so often: a transaction under its request token, a delete by its claim's.
TRIES = 3


def end_in_order(
    queue: Queue, entries: Sequence[Entry], snapshots: Sequence[bytes | None]
) -> tuple[list[Ended | None], MillraceError | None]:
    """The first half of the acks of `entries`, which are neighbours: what ended, and why the next one did not.

    `follow_up` has to be called with what ended, as after `end`. One write unit each, two where they end together.
    """
    epoch = queue.state().epoch
    pairs = list(zip(entries, snapshots, strict=True))
    ended: list[Ended | None] = []
    while len(pairs) - len(ended) >= FEWEST_TOGETHER:
        next_ones = pairs[len(ended) : len(ended) + MOST_TOGETHER]
        if not _end_together(queue, [entry for entry, _ in next_ones]):
            break
        ended += [Ended(entry, snapshot, epoch) for entry, snapshot in next_ones]
    for entry, snapshot in pairs[len(ended) :]:
        try:
            ended.append(_end_alone(queue, entry, snapshot))
        except MillraceError as error:
            return ended, error
    return ended, None


def _end_together(queue: Queue, entries: Sequence[Entry]) -> bool:
    """Whether all of them are out. If not, none is, or nobody knows."""
    queue.record(HistoryEvent.ENDING, entries)
    token = random_token(queue.runtime.entropy)
    for _ in range(TRIES):
        outcome = queue.store.end_together(entries, token)
        if not isinstance(outcome, Unknown):
            break
    if not isinstance(outcome, Applied):
        return False
    queue.record(HistoryEvent.DONE, entries)
    return True


def _end_alone(queue: Queue, entry: Entry, snapshot: bytes | None) -> Ended | None:
    for _ in range(TRIES - 1):
        try:
            return end(queue, entry, snapshot)
        except StaleClaim:
            raise
        except MillraceError:
            continue
    return end(queue, entry, snapshot)
