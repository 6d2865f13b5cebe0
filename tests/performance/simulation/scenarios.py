"""Loads on the real code over the model of AWS, and the figures that come of them.

A scenario is decided by its settings and its seed: no wall clock is read, so its figures are the same on every
machine and can be asserted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Queue, Runtime
from millrace.handlers.batches import BatchSettings, Outcome
from millrace.model.body import Blobs
from millrace.model.errors import MillraceError, StoreUnavailable
from millrace.model.message import DeadLetter, Draft
from millrace.model.queue_spec import Ordering, QueueSpec, Retention, RetryPolicy
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.counters import queue_state_key
from millrace.stores.dynamodb.dead_letters import PARTS
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Applied, Unknown
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker.context import RunContext
from millrace.worker.runners import Together
from millrace.worker.worker import Worker, WorkerSettings
from tests.performance.simulation.dynamodb import Bill, SimulatedDynamoDB
from tests.performance.simulation.threads import virtual_threads
from tests.performance.simulation.virtual_time import NOON, Process, VirtualTime

TABLES = TableNames("queue", "dead-letters")
TENANT = "t"
#: A worker process that found nothing looks again after this.
IDLE_MS = 250
#: List prices of us-east-1, on demand, in USD a million units.
WRITE_PRICE, READ_PRICE = 0.625, 0.125
#: Bodies of messages that always fail, and of those that take long.
POISON, SLOW = b'"poison"', b'"slow"'
SLOW_MS = 60_000
#: How often each of the messages that always fail is tried.
RETRY_MS = 300_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load on one queue."""

    name: str
    rate: int = 200  #: messages a second that are sent
    seconds: float = 10.0
    batch: int = 1  #: messages of one request of a sender
    senders: int = 20
    workers: int = 1
    concurrency: int = 10  #: runs at once in each worker
    shards: int = 1
    ordering: Ordering = Ordering.UNORDERED
    keys: int = 0
    run_ms: float = 5.0  #: how long a handler takes
    together: int = 1  #: messages of one call of the handler
    keeps: bool = True  #: its handler gives a result
    kill_worker_at_s: float | None = None
    seed: int = 1


@dataclass(slots=True)
class Figures:
    """What came of it."""

    accepted: int
    done: int
    accepted_per_s: float
    done_per_s: float
    p50_ms: float  #: from the receipt to the start of the run
    p99_ms: float
    longest_ms: float
    claim_writes_a_win: float
    write_units: float  #: a message
    read_units: float
    hottest: float  #: write units of the busiest partition in its busiest second
    throttled: int
    recovery_ms: float | None  #: from the kill of a worker until all that it held was started again
    done_meanwhile_per_s: float  #: while they were sent, but for the first second
    counter_writes: float  #: of the queue's counter in its busiest second, but for the first, in which rates are learnt

    @property
    def usd_a_million(self) -> float:
        return self.write_units * WRITE_PRICE + self.read_units * READ_PRICE


class CountingStore(DynamoStore):
    """The real store; counts claim writes and how many of them won."""

    claim_writes = 0
    claim_wins = 0

    def claim_entries(self, claimed: Any, now: int) -> Any:
        found = super().claim_entries(claimed, now)
        CountingStore.claim_writes += sum(not isinstance(one, Unknown) for one in found)  # throttled ones wrote nothing
        CountingStore.claim_wins += sum(isinstance(one, Applied) for one in found)
        return found


@dataclass
class World:
    """One run: its time, its tables, and what was seen."""

    seed: int = 1
    time: VirtualTime = field(init=False)
    dynamodb: SimulatedDynamoDB = field(init=False)
    accepted_at: dict[str, float] = field(default_factory=dict)
    started_at: dict[str, list[float]] = field(default_factory=dict)
    done_at: dict[str, float] = field(default_factory=dict)
    blobs: Blobs = field(default_factory=MemoryBlobs)

    def __post_init__(self) -> None:
        self.time = VirtualTime(self.seed)
        self.dynamodb = SimulatedDynamoDB(self.time)

    def runtime(self) -> Runtime:
        """What one process has: a client and caches of its own."""
        client: Any = self.dynamodb
        rng = self.time.random
        calls = RetryingClient(client, monotonic=self.time.monotonic, sleep=self.time.sleep, chance=rng.random)
        store = CountingStore(client, TABLES, clock=self.time.clock, calls=calls)
        return Runtime(store, self.blobs, clock=self.time.clock, entropy=rng.randbytes, chance=rng.random)

    def handler(self, run_ms: float, *, keeps: bool = True) -> Callable[[RunContext], int | None]:
        """A handler that takes its time, notes when it started and ended, and gives a result."""

        def handle(context: RunContext) -> int | None:
            self.started_at.setdefault(context.message_id, []).append(self.time.now)
            if context.body.startswith(POISON):
                raise ValueError("this message always fails")
            self.time.sleep_ms(SLOW_MS if context.body == SLOW else run_ms)
            self.done_at[context.message_id] = self.time.now
            return 1 if keeps else None

        return handle

    def batch_handler(self, run_ms: float) -> Callable[[Sequence[RunContext]], list[Outcome]]:
        """The same for a handler of batches: it takes its time once for all of them."""

        def handle(contexts: Sequence[RunContext]) -> list[Outcome]:
            for context in contexts:
                self.started_at.setdefault(context.message_id, []).append(self.time.now)
            self.time.sleep_ms(run_ms)
            self.done_at.update((context.message_id, self.time.now) for context in contexts)
            return [Outcome(1)] * len(contexts)

        return handle

    def waits(self) -> list[float]:
        """From each receipt to the first start."""
        return sorted(
            max(0.0, self.started_at[one][0] - at) for one, at in self.accepted_at.items() if one in self.started_at
        )


@contextmanager
def world(seed: int = 1) -> Iterator[World]:
    """A world whose library runs in virtual time."""
    CountingStore.claim_writes = CountingStore.claim_wins = 0
    made = World(seed)
    with virtual_threads(made.time):
        yield made


def send(one: World, queue: Queue, scenario: Scenario, number: int) -> None:
    """One sender: its share of the rate, in requests of `batch` messages, each when its time has come."""
    gap_ms = 1000 * scenario.senders * scenario.batch / scenario.rate
    requests = int(scenario.seconds * 1000 / gap_ms)
    begin = NOON + gap_ms * number / scenario.senders
    for request in range(requests):
        one.time.sleep_ms(begin + request * gap_ms - one.time.now)
        drafts = [_draft(scenario, f"{number}-{request}-{n}") for n in range(scenario.batch)]
        for answer in enqueue_all(queue, drafts):
            if not isinstance(answer, MillraceError):
                one.accepted_at[answer.message_id] = one.time.now


def _draft(scenario: Scenario, name: str) -> Draft:
    key = f"key-{hash_of(name) % scenario.keys}" if scenario.keys else ""
    return Draft(b'{"n": 1}', idempotency_key=name, key=key)


def hash_of(name: str) -> int:
    """A spread that does not depend on the process, as `hash` does."""
    return int.from_bytes(name.encode().rjust(8, b"0")[-8:], "big") * 2654435761 >> 7


def work(one: World, spec: QueueSpec, scenario: Scenario) -> None:
    """One worker process: drains again and again, as a container's does."""
    queue = one.runtime().queue(TENANT, spec)
    settings = WorkerSettings(concurrency=scenario.concurrency)
    together = None
    if scenario.together > 1:
        together = Together(BatchSettings(scenario.together), one.batch_handler(scenario.run_ms))
    while True:
        with suppress(StoreUnavailable):  # a process logs it and looks again
            handler = one.handler(scenario.run_ms, keeps=scenario.keeps)
            Worker(queue, handler, settings=settings, together=together).run()
        one.time.sleep_ms(IDLE_MS)


def run(scenario: Scenario) -> Figures:
    """Run a scenario to its end: until all that was accepted is done, or a minute after the last was sent."""
    spec = QueueSpec("Jobs", ordering=scenario.ordering, shards=scenario.shards, max_concurrency=10_000)
    with world(scenario.seed) as one:
        with unlimited(one):  # as a queue that was used today
            one.runtime().store.register(TENANT, spec.name)
        for number in range(scenario.senders):
            queue = one.runtime().queue(TENANT, spec)
            one.time.spawn("sender", partial(send, one, queue, scenario, number))
        processes = [Process(f"worker-{number}") for number in range(scenario.workers)]
        for process in processes:
            one.time.spawn(process.name, lambda: work(one, spec, scenario), process=process)
        held = _kill(one, processes[0], scenario)
        one.time.run(scenario.seconds * 1000)
        one.time.run_until(lambda: len(one.done_at) >= len(one.accepted_at), 600_000)
        return _figures(one, scenario, held)


def _kill(one: World, process: Process, scenario: Scenario) -> dict[str, float]:
    """Kill the first worker at its time; what it had started and not finished then."""
    held: dict[str, float] = {}

    def kill() -> None:
        one.time.kill_process(process)
        held.update({name: one.time.now for name in one.started_at if name not in one.done_at})

    if scenario.kill_worker_at_s is not None:
        one.time.at(NOON + scenario.kill_worker_at_s * 1000, kill)
    return held


def _figures(one: World, scenario: Scenario, held: dict[str, float]) -> Figures:
    bill, waits = one.dynamodb.bill, one.waits()
    counted = bill.writes_by_partition[queue_state_key(TENANT, "Jobs")["pk"]["S"]]
    count = max(1, len(one.done_at))
    ended = max(one.done_at.values(), default=NOON) - NOON
    again = [
        min((at for at in one.started_at[name] if at > killed), default=one.time.now) - killed
        for name, killed in held.items()
    ]
    return Figures(
        accepted=len(one.accepted_at),
        done=len(one.done_at),
        accepted_per_s=len(one.accepted_at) / scenario.seconds,
        done_per_s=len(one.done_at) * 1000 / max(ended, 1),
        p50_ms=waits[len(waits) // 2] if waits else 0.0,
        p99_ms=waits[int(len(waits) * 0.99)] if waits else 0.0,
        longest_ms=waits[-1] if waits else 0.0,
        claim_writes_a_win=CountingStore.claim_writes / max(1, CountingStore.claim_wins),
        write_units=bill.write_units / count,
        read_units=bill.read_units / count,
        hottest=bill.hottest()[1],
        throttled=sum(bill.throttled.values()),
        recovery_ms=max(again) if again else None,
        done_meanwhile_per_s=_done_meanwhile_per_s(one, scenario.seconds),
        counter_writes=max((writes for second, writes in counted.items() if second > NOON // 1000), default=0),
    )


def _done_meanwhile_per_s(one: World, seconds: float) -> float:
    """From a standing start the first second is short of what was under way at its end."""
    first = min(1.0, seconds / 2)
    begin, end = NOON + first * 1000, NOON + seconds * 1000
    return sum(begin < at <= end for at in one.done_at.values()) / (seconds - first)


def ceiling(scenario: Scenario, backlog: int = 4_000) -> Figures:
    """Drain a backlog as fast as it goes: what the workers can do, whatever is sent."""
    spec = QueueSpec("Jobs", ordering=scenario.ordering, shards=scenario.shards, max_concurrency=10_000)
    with world(scenario.seed) as one:
        with unlimited(one):
            queue = one.runtime().queue(TENANT, spec)
            for start in range(0, backlog, 25):
                for answer in enqueue_all(queue, [_draft(scenario, f"{start}-{n}") for n in range(25)]):
                    assert not isinstance(answer, MillraceError)
                    one.accepted_at[answer.message_id] = NOON
        for number in range(scenario.workers):
            process = Process(f"worker-{number}")
            one.time.spawn(process.name, lambda: work(one, spec, scenario), process=process)
        one.time.run_until(lambda: len(one.done_at) >= backlog, 3_600_000)
        return _figures(one, replace(scenario, seconds=1.0), {})


@dataclass(frozen=True, slots=True)
class Outage:
    """What it takes to bury everything, since its target is down."""

    buried_per_s: float
    throttled: int  #: requests that a partition of either table turned away
    counter_writes_per_s: float


def outage(messages: int, *, workers: int = 1, shards: int = 8) -> Outage:
    """Every message of a backlog, 2 KB each, fails for good, as fast as the workers go."""
    spec = QueueSpec("Jobs", shards=shards, max_concurrency=10_000, delivery=RetryPolicy(max_attempts=1))
    scenario = Scenario("outage", concurrency=20)
    with world() as one:
        body = POISON + one.time.random.randbytes(2_000)
        with unlimited(one):
            fill(one, one.runtime().queue(TENANT, spec), [Draft(body) for _ in range(messages)])
        for number in range(workers):
            process = Process(f"worker-{number}")
            one.time.spawn(process.name, lambda: work(one, spec, scenario), process=process)
        parts = [f"{TENANT}#Jobs#{part}" for part in range(PARTS)]
        one.time.run_until(lambda: len(list(one.dynamodb.items(TABLES.dead_letters, parts))) >= messages, 600_000)
        took_s = (one.time.now - NOON) / 1000
        bill = one.dynamodb.bill
        counted = sum(bill.writes_by_partition[queue_state_key(TENANT, "Jobs")["pk"]["S"]].values())
        return Outage(messages / took_s, sum(bill.throttled.values()), counted / took_s)


def statuses(one: World) -> Counter[int]:
    """How often messages were started: more than once after a kill only."""
    return Counter(len(starts) for starts in one.started_at.values())


# -- a healthy message beside others that cannot run ----------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Beside:
    """A healthy message in a queue full of what cannot run: how long does it wait?"""

    name: str
    fill: Callable[[World, Queue, int], None]  #: lays what cannot run into the queue
    ordering: Ordering = Ordering.UNORDERED
    shards: int = 1
    count: int = 10_000
    max_age_seconds: int = 4 * 86_400
    workers: int = 1
    kill_every_s: float | None = None  #: kill a worker with what it holds, and start another
    places: int | None = None  #: of each key


def longest_wait_ms(beside: Beside, *, healthy: int = 5, seed: int = 1, patience_ms: float = 600_000) -> float:
    """Send a healthy message every two seconds beside the others: the longest until one of them was started."""
    spec = QueueSpec(
        "Jobs",
        ordering=beside.ordering,
        shards=beside.shards,
        concurrency_per_key=beside.places,
        max_concurrency=10_000,
        retention=Retention(max_age_seconds=beside.max_age_seconds),
        delivery=RetryPolicy(max_attempts=50, initial_backoff_ms=RETRY_MS, max_backoff_ms=RETRY_MS),
    )
    with world(seed) as one:
        with unlimited(one):
            beside.fill(one, one.runtime().queue(TENANT, spec), beside.count)
        one.accepted_at.clear()
        _work_and_kill(one, spec, beside)

        def send_healthy() -> None:
            queue = one.runtime().queue(TENANT, spec)
            for number in range(healthy):
                one.time.sleep(2.0)
                draft = Draft(b"{}", idempotency_key=f"h{number}", key=f"healthy-{number}")
                (answer,) = enqueue_all(queue, [draft])
                if not isinstance(answer, MillraceError):  # a silent shard accepts nothing
                    one.accepted_at[answer.message_id] = one.time.now

        one.time.spawn("sender", send_healthy, process=Process("sender"))
        one.time.run(2_000 * healthy + 1)
        one.time.run_until(lambda: all(name in one.started_at for name in one.accepted_at), patience_ms)
        return max(one.waits())


def _work_and_kill(one: World, spec: QueueSpec, beside: Beside) -> None:
    scenario = Scenario(beside.name, concurrency=10)

    def start() -> Process:
        process = Process("worker")
        one.time.spawn("worker", partial(work, one, spec, scenario), process=process)
        return process

    workers = deque(start() for _ in range(beside.workers))

    def kill(every_s: float) -> None:
        one.time.sleep(1.0)
        while True:
            one.time.kill_process(workers.popleft())
            workers.append(start())
            one.time.sleep(every_s)

    if beside.kill_every_s is not None:
        one.time.spawn("killer", partial(kill, beside.kill_every_s), process=Process("killer"))


@contextmanager
def unlimited(one: World) -> Iterator[None]:
    """Prepare a table without waiting for it: latencies and limits begin afterwards, and so does the bill."""
    limits, one.dynamodb.limits = one.dynamodb.limits, False
    yield
    one.dynamodb.limits = limits
    one.dynamodb.bill = Bill()


def dead_letters(one: World, queue: Queue) -> list[DeadLetter]:
    """What a queue has buried, without waiting for it."""
    found: list[DeadLetter] = []
    with unlimited(one):
        one.time.spawn("look", lambda: found.extend(list_dead_letters(queue).items))
        one.time.run(1)
    return found


def fill(one: World, queue: Queue, drafts: Sequence[Draft]) -> None:
    """Enqueue many, a hundred at a time."""
    for start in range(0, len(drafts), 100):
        answers = enqueue_all(queue, drafts[start : start + 100])
        assert not any(isinstance(answer, MillraceError) for answer in answers)


def blocked_keys(one: World, queue: Queue, count: int) -> None:
    """As many keys as messages, each with its first one backing off for an hour."""
    fill(one, queue, [Draft(b"{}", idempotency_key=f"{n}", key=f"key-{n}") for n in range(count)])
    for item in one.dynamodb.items(TABLES.queue, queue.partitions()):
        item["due"] = {"N": str(one.time.clock() + 3_600_000)}


def full_keys(one: World, queue: Queue, count: int) -> None:
    """Keys with three messages each, of which the first two back off for an hour and hold both places."""
    for number in range(3):
        fill(one, queue, [Draft(b"{}", idempotency_key=f"{number}-{n}", key=f"key-{n}") for n in range(count)])
        if number < 2:
            for item in one.dynamodb.items(TABLES.queue, queue.partitions()):
                item["due"] = {"N": str(one.time.clock() + 3_600_000)}


def live_claims(one: World, queue: Queue, count: int) -> None:
    """Messages that consumers elsewhere hold for an hour."""
    fill(one, queue, [Draft(b"{}", idempotency_key=f"{n}") for n in range(count)])
    for item in one.dynamodb.items(TABLES.queue, queue.partitions()):
        item |= {"until": {"N": str(one.time.clock() + 3_600_000)}, "token": {"S": "elsewhere"}, "version": {"N": "1"}}


def expired(one: World, queue: Queue, count: int) -> None:
    """Messages that are too old to run, and wait to be buried."""
    fill(one, queue, [Draft(b"{}", idempotency_key=f"{n}", key=f"key-{n}") for n in range(count)])
    for item in one.dynamodb.items(TABLES.queue, queue.partitions()):
        item["expires"] = {"N": str(one.time.clock() - 1)}


def never_committed(one: World, queue: Queue, count: int) -> None:
    """Entries of senders that died before they wrote the message, long ago."""
    fill(one, queue, [Draft(b"{}", idempotency_key=f"{n}") for n in range(count)])
    for item in one.dynamodb.items(TABLES.queue, queue.partitions()):
        item |= {"nonce": {"S": "lost"}, "at": {"N": str(one.time.clock() - 3_600_000)}}


def a_silent_shard(one: World, queue: Queue, count: int) -> None:
    """One shard of four throttles everything."""
    fill(one, queue, [Draft(b"{}", idempotency_key=f"{n}") for n in range(count)])
    silent = queue.partitions()[0]
    one.dynamodb.refuse = lambda pk: pk == silent


def poisoned(one: World, queue: Queue, count: int) -> None:
    """Messages that always fail and back off for five minutes, due one after another: with 10,000, 33 a second."""
    now = one.time.clock()
    fill(one, queue, [Draft(POISON, not_before=now + n * RETRY_MS // count) for n in range(count)])


def slow_runs(one: World, queue: Queue, count: int) -> None:
    """Messages whose runs take a minute, so that a killed worker holds some."""
    fill(one, queue, [Draft(SLOW) for _ in range(count)])


BESIDE = (
    Beside("10,000 that always fail", poisoned),
    Beside("four workers, one killed every two seconds", slow_runs, count=15, workers=4, kill_every_s=2.0),
    Beside("10,000 keys that back off (per_key)", blocked_keys, Ordering.PER_KEY),
    Beside("5,000 keys with both places backing off", full_keys, Ordering.PER_KEY, count=5_000, places=2),
    Beside("6,000 live claims of others", live_claims, count=6_000),
    Beside("10,000 that are to be buried", expired),
    Beside("200 entries of dead senders", never_committed, count=200),
    Beside("a shard of four that does not answer", a_silent_shard, shards=4, count=40),
)
