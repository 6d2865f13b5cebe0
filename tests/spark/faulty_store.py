"""Stores that lose answers, and a task that writes rows: time and chance are the test's."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from millrace.engine.queue import Queue, Runtime
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import QueueSpec
from millrace.spark.rows import Copy, Position, Reported, Row, RowOutcome
from millrace.spark.writer import Writer, Writing
from millrace.stores.interface import Store, Unknown
from tests.conftest import Bench

#: What becomes of one call: gets the way to the store and the arguments.
Fault = Callable[[Callable[..., Any], tuple[Any, ...]], Any]
SILENCE = StoreUnavailable("no answer")


def works(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return call(*arguments)


def lost(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Applied, and nobody heard of it."""
    return [Unknown(SILENCE) for _ in call(*arguments)]


def unsent(_call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return [Unknown(SILENCE) for _ in arguments[0]]


def down(_call: Callable[..., Any], _arguments: tuple[Any, ...]) -> Any:
    raise SILENCE


def each(fates: Sequence[str]) -> Fault:
    """A fault for each element of a list: `works`, `lost` or `unsent`."""

    def fail(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        items = arguments[0]
        fate = [fates[number % len(fates)] for number in range(len(items))]
        heard = iter(call([item for item, f in zip(items, fate, strict=True) if f != "unsent"], *arguments[1:]))
        outcomes = [None if f == "unsent" else next(heard) for f in fate]
        return [o if f == "works" else Unknown(SILENCE) for o, f in zip(outcomes, fate, strict=True)]

    return fail


class FaultyStore:
    """A store of which the next calls of a method fail as planned."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[str, deque[Fault]] = {}
        self._always: dict[str, Fault] = {}
        self.calls: list[tuple[str, Any]] = []

    def plan(self, method: str, *faults: Fault, always: Fault | None = None) -> None:
        """The next calls meet these; every one after them `always`, where given."""
        self._plans[method] = deque(faults)
        self._always[method] = always or works

    def heal(self) -> None:
        self._plans, self._always = {}, {}

    def asked(self, method: str) -> list[Any]:
        """What each call of a method was given first."""
        return [first for name, first in self.calls if name == method]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments[0] if arguments else None))
            plan = self._plans.get(name)
            fault = plan.popleft() if plan else self._always.get(name, works)
            return fault(lambda *a: method(*a, **named), arguments)

        return call


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
