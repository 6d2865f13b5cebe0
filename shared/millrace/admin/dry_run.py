"""What a job would do, before it is started: how many, and a few of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.engine.queue import Queue
from millrace.model.message import DeadLetter, DeadLetterFilter

SAMPLE = 10
PAGE = 100
#: A count that takes longer says how far it came.
BUDGET_MS = 8_000
MOST = 50_000


@dataclass(frozen=True, slots=True)
class Count:
    """How many dead letters a filter finds."""

    count: int
    exact: bool  #: false when there was too much to count
    replayed: int  #: of them, replayed before: a job leaves them out unless told otherwise
    sample: tuple[DeadLetter, ...]  #: the oldest
    by_error: Mapping[str, int]
    oldest_at: int
    newest_at: int


def count_dead_letters(queue: Queue, only: DeadLetterFilter) -> Count:
    """Count what a job started now would find, oldest first. Reads a page of 100 at a time, for 8 s at most."""
    now = queue.now()
    found = replace(only, failed_before=min(only.failed_before, now))
    after: str | None = f"{found.failed_from:013d}"
    count = replayed = newest_at = seen = 0
    sample: list[DeadLetter] = []
    errors: Counter[str] = Counter()
    while after is not None and seen < MOST and queue.now() - now < BUDGET_MS:
        upto = f"{found.failed_before:013d}"
        page = queue.store.read_dead_letters(queue.tenant, queue.spec.name, after, upto, PAGE)
        for dead_letter in filter(found.matches, page.items):
            count += 1
            replayed += bool(dead_letter.replayed_at)
            errors[dead_letter.error_type or dead_letter.reason.value] += 1
            newest_at = dead_letter.failed_at
            if len(sample) < SAMPLE:
                sample.append(dead_letter)
        seen += len(page.items)
        after = page.next
    oldest_at = sample[0].failed_at if sample else 0
    return Count(count, after is None, replayed, tuple(sample), dict(errors.most_common(10)), oldest_at, newest_at)
