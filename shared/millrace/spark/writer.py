"""Shaped rows into the queue, and an exact answer for each: what one Spark task does.

Everything here may happen twice (a task is repeated, a copy of it runs elsewhere) and any answer may be lost. So each
message carries its run: a row whose message is there by this very run was inserted, whoever's try it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import attrgetter

from millrace.engine.counters import flush
from millrace.engine.drafts import Checked, check
from millrace.engine.enqueue import Receipt, enqueue_checked
from millrace.engine.filtered import record_all_filtered
from millrace.engine.queue import Queue, Runtime
from millrace.model.clock import Chance, system_chance
from millrace.model.errors import BodyLost, InvalidRequest, MillraceError, QueueFull, StoreUnavailable
from millrace.model.message import Message
from millrace.model.queue_spec import Ordering, QueueSpec
from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.spark.rows import Copy, Reported, Row, RowOutcome

#: Rows that a thread takes at once: one read of 100, four writes of 25.
CHUNK = 100
BATCH = 25
#: Over so many rows the share of those that are there already decides whether to read first.
WINDOW = 100
READ_FIRST_FROM, READ_FIRST_UNTIL = 0.5, 0.2


@dataclass(frozen=True, slots=True)
class Writing:
    """How a task writes."""

    run: str
    threads: int = 6
    stop_when_full: bool = False
    patience_s: float = 900.0  #: how long rows are tried when nothing of the task gets through
    rows_per_s: float | None = None  #: of one task; None: only the write units count
    first_wait_s: float = 0.2
    longest_wait_s: float = 5.0


@dataclass(slots=True)
class _Share:
    """Of the rows settled lately, how many met their message there already; and whether it pays to read first."""

    rows: int = 0
    existing: int = 0
    reads_first: bool = True  #: for a start: it is cheap, and a second run is noticed at once
    lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, rows: int, existing: int) -> None:
        with self.lock:
            self.rows += rows
            self.existing += existing
            if self.rows >= WINDOW:
                share = self.existing / self.rows
                self.reads_first = share >= (READ_FIRST_UNTIL if self.reads_first else READ_FIRST_FROM)
                self.rows = self.existing = 0


class Writer:
    """One task's way into the queue.

    `prepare` makes each row fit to be written; `settled` hears of each that is in the queue by this run.
    """

    def __init__(
        self,
        runtime: Runtime,
        spec: QueueSpec,
        writing: Writing,
        *,
        prepare: Callable[[Queue, Row], Row] | None = None,
        settled: Callable[[Queue, Row], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Chance = system_chance,
    ) -> None:
        self._runtime = runtime
        self._spec = spec
        self._writing = writing
        self._prepare = prepare
        self._settled = settled
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance
        self._share = _Share()
        self._rows = AdaptiveThrottle(writing.rows_per_s, monotonic=monotonic, sleep=sleep)
        self._stopped = False
        self._stuck_since: float | None = None  #: the first error after the last row that got through
        self._broken: set[tuple[str, str]] = set()  #: of an ordered queue: where a row failed, no later one goes in

    def write(self, rows: Iterable[Row]) -> Iterator[list[Reported]]:
        """An outcome for each row and each of its copies, in chunks as they end. No two rows may have one id."""
        # In an ordered queue the rows of a task go in one after the other; else threads hide the table's latency.
        threads = 1 if self._spec.ordering.ordered else self._writing.threads
        try:
            with ThreadPoolExecutor(threads, thread_name_prefix="bulk") as pool:
                open_: set[Future[list[Reported]]] = set()
                for chunk in _chunks(rows, CHUNK):
                    if len(open_) >= 2 * threads:
                        done, open_ = wait(open_, return_when=FIRST_COMPLETED)
                        for future in done:
                            yield future.result()
                    open_.add(pool.submit(self._write_chunk, chunk))
                for future in open_:
                    yield future.result()
        finally:
            with suppress(StoreUnavailable):  # the sweep finds what was not given back
                self._runtime.credits.give_back()

    def _write_chunk(self, rows: list[Row]) -> list[Reported]:
        lines = [line for row in rows if row.reason for line in _all(row, RowOutcome.REJECTED, row.reason)]
        accepted = [row for row in rows if not row.reason]
        of_tenant = attrgetter("tenant")
        for tenant, own in groupby(sorted(accepted, key=of_tenant), key=of_tenant):
            queue = self._runtime.queue(tenant, self._spec)
            fresh = self._prepared(queue, list(own), lines)
            if self._share.reads_first and not self._stopped:
                fresh = self._read_first(queue, fresh, lines)
            wanted = [row for row in fresh if not row.filtered]
            for batch in _chunks([row for row in fresh if row.filtered], BATCH):
                lines += self._enqueue(queue, batch)
            for batch in self._batches(wanted):
                behind = [row for row in batch if self._order_of(row) in self._broken]
                lines += self._give_up(queue, behind, BEHIND) if behind else []
                if len(behind) < len(batch):
                    self._rows.take(len(batch) - len(behind))
                    lines += self._enqueue(queue, [row for row in batch if row not in behind])
            flush(queue)
        return lines

    def _prepared(self, queue: Queue, rows: list[Row], lines: list[Reported]) -> list[Row]:
        """Rows fit to be written; what they lack may be out of reach."""
        if self._prepare is None:
            return rows
        ready: list[Row] = []
        for row in rows:
            try:
                ready.append(self._prepare(queue, row))
            except (StoreUnavailable, BodyLost) as error:
                lines += _all(row, RowOutcome.FAILED, f"body_lost: {error}")
        return ready

    def _batches(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Up to 25; of an ordered queue never two of one key, since one of them may have to be repeated."""
        if not self._spec.ordering.ordered:
            yield from _chunks(rows, BATCH)
            return
        batch: list[Row] = []
        keys: set[tuple[str, str]] = set()
        for row in rows:
            if len(batch) == BATCH or self._order_of(row) in keys:
                yield batch
                batch, keys = [], set()
            batch.append(row)
            keys.add(self._order_of(row))
        if batch:
            yield batch

    def _order_of(self, row: Row) -> tuple[str, str]:
        """Whose order a row of an ordered queue keeps."""
        return row.tenant, row.draft.key if self._spec.ordering is Ordering.PER_KEY else ""

    def _read_first(self, queue: Queue, rows: list[Row], lines: list[Reported]) -> list[Row]:
        """Settle the rows whose message is there; the others come back. A failed read settles nothing."""
        try:
            existing = queue.store.get_messages([row.id for row in rows])
        except StoreUnavailable:
            return rows
        fresh, now, seen = [], queue.now(), 0
        for row in rows:
            message = existing.get(row.id)
            if message is not None and (row.filtered or message.run == self._writing.run or now < message.dedupe_until):
                lines += self._settle(queue, row, message)
                seen += 1
            else:
                fresh.append(row)
        self._share.saw(seen, seen)
        return fresh

    def _enqueue(self, queue: Queue, rows: list[Row]) -> list[Reported]:
        """Try until every row has ended, or patience has."""
        lines: list[Reported] = []
        waited = self._writing.first_wait_s
        reason = STOPPED
        while not self._stopped:
            again, errors = self._try(queue, rows, lines)
            full = bool(errors) and all(isinstance(error, QueueFull) for error in errors)
            if full:  # what is there already needs no room
                again = self._read_first(queue, again, lines)
            if not again:
                return lines
            if full and len(again) == len(rows) and self._writing.stop_when_full:  # else duplicates gave room back
                self._stopped = True
            rows, reason = again, f"{errors[0].code}: {errors[0]}"
            if self._stopped or not self._patient():
                break
            self._sleep(waited * (0.5 + self._chance() / 2))
            waited = min(waited * 2, self._writing.longest_wait_s)
        return lines + self._give_up(queue, rows, reason)

    def _try(self, queue: Queue, rows: list[Row], lines: list[Reported]) -> tuple[list[Row], list[MillraceError]]:
        """Hand the rows in once; those that have not ended come back, with their errors."""
        answers: list[Receipt | MillraceError]
        try:
            now = queue.now()
            if rows[0].filtered:
                answers = record_all_filtered(queue, [_checked_filtered(queue, row, now) for row in rows])
            else:
                answers = enqueue_checked(queue, [_checked(queue, row, now) for row in rows], now)
        except StoreUnavailable as error:
            answers = [error] * len(rows)
        again: list[Row] = []
        errors: list[MillraceError] = []
        settled = existing = 0
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Receipt):
                lines += self._settle(queue, row, answer.existing)
                settled += 1
                existing += answer.existing is not None
            elif isinstance(answer, InvalidRequest):
                lines += _all(row, RowOutcome.REJECTED, f"{answer.code}: {answer}")
            else:
                again.append(replace(row, checked=None))  # another try is another acceptance, with its own nonce
                errors.append(answer)
        self._share.saw(settled, existing)
        return again, errors

    def _patient(self) -> bool:
        """Whether rows are tried again: not once nothing of the task got through for too long."""
        now = self._monotonic()
        stuck = self._stuck_since = now if self._stuck_since is None else self._stuck_since
        return now - stuck < self._writing.patience_s

    def _give_up(self, queue: Queue, rows: list[Row], reason: str) -> list[Reported]:
        """Look once more what is there: a commit may have happened without its answer."""
        lines: list[Reported] = []
        for row in self._read_first(queue, rows, lines):
            lines += _all(row, RowOutcome.FAILED, reason)
            if self._spec.ordering.ordered and not row.filtered:
                self._broken.add(self._order_of(row))
        return lines

    def _settle(self, queue: Queue, row: Row, existing: Message | None) -> list[Reported]:
        """The outcome of a row that has its message, and of its copies, by what is in the table."""
        self._stuck_since = None
        if existing is None and not row.copies and not row.filtered:  # nearly every row
            if self._settled is not None:
                self._settled(queue, row)
            return [Reported(row, RowOutcome.INSERTED)]

        def stored(body: bytes) -> bool:
            return body == row.draft.body if existing is None else queue.runtime.bodies.is_body_of(existing, body)

        if row.filtered:
            return _all(row, RowOutcome.FILTERED, FILTERED)
        lines = []
        if not stored(row.draft.body):
            lines.append(_conflict(row))
        elif existing is None or existing.run == self._writing.run:
            if self._settled is not None:
                self._settled(queue, row)
            lines.append(Reported(row, RowOutcome.INSERTED))
        else:
            lines.append(Reported(row, RowOutcome.DUPLICATE, "A message of its key was there already."))
        lines += [
            Reported(row, RowOutcome.DUPLICATE, COPY, copy) if stored(copy.body) else _conflict(row, copy)
            for copy in row.copies
        ]
        return lines


FILTERED = "The queue's filter leaves it out."
STOPPED = "queue_full: The queue is full, and the run stops when it is."
BEHIND = "out_of_order: An earlier row that it must follow could not be written."
COPY = "An earlier row has the same key and body."


def _checked(queue: Queue, row: Row, now: int) -> Checked | MillraceError:
    """A row's draft as this task has checked it, or checked now."""
    if row.checked is not None:
        return row.checked
    try:
        return check(queue, row.draft, now, system_key=row.system_key)
    except MillraceError as error:
        return error


def _checked_filtered(queue: Queue, row: Row, now: int) -> Checked:
    return row.checked or check(queue, row.draft, now, system_key=row.system_key)


def _conflict(row: Row, copy: Copy | None = None) -> Reported:
    return Reported(row, RowOutcome.CONFLICT, "Its key is taken by a message with another body.", copy)


def _all(row: Row, outcome: RowOutcome, reason: str) -> list[Reported]:
    return [Reported(row, outcome, reason), *(Reported(row, outcome, reason, copy) for copy in row.copies)]


def _chunks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, size)):
        yield chunk
