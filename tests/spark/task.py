"""A task of a bulk run that writes rows into one queue: time and chance are the test's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from millrace.engine.claim import claim
from millrace.engine.drafts import check
from millrace.engine.filtered import filtered_id
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import QueueSpec
from millrace.spark.rows import Copy, Position, Reported, Row, RowOutcome
from millrace.spark.writer import Writer, Writing
from tests.conftest import Bench
from tests.faults.store import FaultyStore


class Task:
    """Writes rows into one tenant's queue and looks what is there."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.faulty = FaultyStore(bench.store)
        self.runtime = self.another_process()
        self.spec = QueueSpec("Jobs")
        self.seconds = 0.0
        self.while_asleep: Callable[[], None] = lambda: None

    def another_process(self) -> Runtime:
        store: Any = self.faulty
        return Runtime(store, self.bench.blobs, clock=self.bench.clock)

    @property
    def queue(self) -> Queue:
        return self.runtime.queue(self.bench.tenant, self.spec)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.bench.clock.forward(round(seconds * 1000))
        self.while_asleep()

    def rows(self, numbers: Iterable[int], *, run: str = "run-1", tenant: str = "", **draft: Any) -> list[Row]:
        """Rows number 1, 2, …, whose key and body say their number."""
        return [self.row(number, run=run, tenant=tenant, **draft) for number in numbers]

    def filtered_rows(self, numbers: Iterable[int]) -> list[Row]:
        """Rows that the queue's filter leaves out, under the ids of their records."""

        def record(row: Row) -> str:
            return filtered_id(self.queue, check(self.queue, row.draft, self.queue.now()))

        return [replace(row, id=record(row), filtered=True) for row in self.rows(numbers)]

    def row(
        self,
        number: int,
        body: bytes = b"",
        *,
        run: str = "run-1",
        tenant: str = "",
        copies: Sequence[bytes] = (),
        reason: str = "",
        **draft: Any,
    ) -> Row:
        tenant = tenant or self.bench.tenant
        key = f"key-{number}"
        return Row(
            Position("file", 0, number),
            tenant,
            keyed_message_id(tenant, self.spec.name, key),
            Draft(body or b"body %d" % number, idempotency_key=key, source="bulk", run=run, **draft),
            reason=reason,
            copies=tuple(Copy(Position("file", 1_000, n), copy) for n, copy in enumerate(copies)),
        )

    def writer(
        self,
        run: str = "run-1",
        *,
        prepare: Any = None,
        settled: Any = None,
        again: bool = False,
        reads_first: bool = False,
        **writing: Any,
    ) -> Writer:
        """A task's writer; `again` for one in a fresh process."""
        if again:
            self.runtime = self.another_process()
        how = Writing(run, **{"threads": 1, "patience_s": 60.0, **writing})
        writer = Writer(
            self.runtime,
            self.spec,
            how,
            prepare=prepare,
            settled=settled,
            monotonic=lambda: self.seconds,
            sleep=self.sleep,
            chance=lambda: 1.0,
        )
        writer._share.reads_first = reads_first
        return writer

    def write(self, rows: Sequence[Row], run: str = "run-1", **writing: Any) -> list[Reported]:
        of_run = [replace(row, draft=replace(row.draft, run=run)) for row in rows]
        return [line for lines in self.writer(run, **writing).write(of_run) for line in lines]

    def lying(self, tenant: str = "") -> list[Entry]:
        """Entries of the queue whose message is there and their own, in the order in which they lie."""
        queue = self.runtime.queue(tenant or self.bench.tenant, self.spec)
        store = self.bench.store
        entries = [entry for pk in queue.partitions() for entry in store.read_lane(pk, " ", "~", 2_000).items]
        existing = store.get_messages([entry.id for entry in entries])
        return [entry for entry in entries if (m := existing.get(entry.id)) and m.nonce == entry.nonce]

    def lies_exactly(self, *rows: Row) -> bool:
        """Whether the queue holds these rows' messages, each once, and no other."""
        return sorted(entry.id for entry in self.lying()) == sorted(row.id for row in rows)


def outcomes(lines: Sequence[Reported]) -> dict[int, RowOutcome]:
    """By the number of the row; copies count from 1,000 on."""
    return {line.position.offset + line.position.block: line.outcome for line in lines}


def tally(lines: Sequence[Reported]) -> dict[str, int]:
    return dict(Counter(line.outcome.value for line in lines))


def work_off(task: Task, limit: int = 100) -> int:
    claims = claim(task.queue, owner="w", limit=limit).claims
    ack(task.queue, [held.entry for held in claims])
    return len(claims)
