"""The steps of a message's life, each measured: what the tests assert and the report prints."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from millrace.engine.claim import Claim, body_of, claim, clear_doomed
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, extend, follow_up, nack, reject, release
from millrace.engine.operate import break_claim
from millrace.engine.queue import Queue, Runtime
from millrace.engine.transact import Enqueuing, accept_with, end_with
from millrace.engine.workflow_state import write_workflow_state
from millrace.model.clock import DAY
from millrace.model.journal import once
from millrace.model.keys import ready_place
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Idempotency, QueueSpec, RetryPolicy
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import APPLIED
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker.context import ClaimState
from tests.app_table import Orders, writes
from tests.conftest import Clock
from tests.performance.costs.meter import Meter
from tests.performance.kms_sizes import KeysOfKmsSize

#: About 700 bytes stored with all else that a message carries.
SMALL = b'{"action":"opened","number":7}'
BATCH = 25


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step, for each message in it."""

    writes: float
    accounting: float  #: of those: credits and settlements, shared by many messages
    reads: float
    requests: float


class Bench:
    """A metered store, and queues on it that nobody else uses."""

    def __init__(self, client: Any, names: TableNames, meter: Meter, tenant: str) -> None:
        self.meter = meter
        self.clock = Clock()
        self.tenant = tenant
        self.blobs = MemoryBlobs()
        self.store = DynamoStore(client, names, clock=self.clock)
        self.keys = KeysOfKmsSize()
        self.runtime = Runtime(self.store, self.blobs, clock=self.clock, chance=lambda: 0.5, keys=self.keys)
        self._queues = 0

    def queue(self, *, cached: bool = True, long_name: bool = False, **settings: Any) -> Queue:
        self._queues += 1
        name = f"Q{self._queues}".ljust(64 if long_name else 0, "q")
        spec = QueueSpec(name, idempotency=Idempotency(cache_result=cached), **settings)
        self.store.register(self.tenant, name)
        return self.runtime.queue(self.tenant, spec)

    def orders(self) -> Orders:
        """A table of an app's own."""
        return Orders(self.store, self.tenant, self.store._calls.client)

    def measure(self, messages: int, step: Callable[[], object]) -> Cost:
        """The step's cost for each of so many messages."""
        self.meter.reset()
        step()
        charges = self.meter.charges
        assert not self.meter.disputed, "the engine says otherwise than the rules"
        counters = sum(charge.paid for charge in charges if charge.accounting)
        return Cost(
            self.meter.writes / messages, counters / messages, self.meter.reads / messages, len(charges) / messages
        )


def filled(queue: Queue, count: int, body: bytes = SMALL) -> None:
    enqueue_all(queue, [Draft(body) for _ in range(count)])


def held(queue: Queue, count: int = 1) -> list[Claim]:
    claims = claim(queue, owner="worker", limit=count).claims
    assert len(claims) == count
    return claims


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def enqueue_at_load(bench: Bench, count: int = 100) -> Cost:
    """One by one, as an ingress under sustained traffic: its credits come in ever larger blocks."""
    queue = bench.queue()
    return bench.measure(count, lambda: [enqueue(queue, Draft(SMALL)) for _ in range(count)])


def life(
    bench: Bench, *, cached: bool, batches: int = 2, result: bytes | None = b'{"ok":true}', encrypt: str = ""
) -> dict[str, Cost]:
    """Enqueue, claim and ack of several batches, at load."""
    queue = bench.queue(cached=cached, encrypt=encrypt)
    count = batches * BATCH

    def fill() -> None:
        for _ in range(batches):
            filled(queue, BATCH)

    costs = {"enqueue": bench.measure(count, fill)}
    claims: list[list[Claim]] = []
    costs["claim"] = bench.measure(count, lambda: claims.extend(held(queue, BATCH) for _ in range(batches)))

    def finish() -> None:
        for batch in claims:
            assert ack(queue, [found.entry for found in batch], [result] * BATCH) == [None] * BATCH

    costs["ack"] = bench.measure(count, finish)
    return costs


def calls_of_kms(bench: Bench, messages: int) -> float:
    """For each of so many messages, sent by one process and worked off by another, with a result each."""
    queue = bench.queue(encrypt="alias/costs")
    worker = replace(queue, runtime=Runtime(bench.store, bench.blobs, clock=bench.clock, keys=bench.keys))
    before = len(bench.keys.calls)
    for _ in range(messages // BATCH):
        filled(queue, BATCH)
        claims = held(worker, BATCH)
        assert [body_of(worker, found) for found in claims] == [SMALL] * BATCH
        assert ack(worker, [found.entry for found in claims], [b'{"ok":true}'] * BATCH) == [None] * BATCH
    return (len(bench.keys.calls) - before) / messages


def life_alone(bench: Bench, *, cached: bool) -> dict[str, Cost]:
    """The same for a single message, with nothing shared."""
    queue = bench.queue(cached=cached)
    costs = {"enqueue": bench.measure(1, lambda: enqueue(queue, Draft(SMALL)))}
    claims: list[Claim] = []
    costs["claim"] = bench.measure(1, lambda: claims.extend(held(queue)))
    costs["ack"] = bench.measure(1, lambda: ack(queue, [claims[0].entry], [b"{}"]))
    return costs


def retry(
    bench: Bench,
    body: bytes,
    *,
    error: str = "no",
    error_type: str = "RuntimeError",
    owner: str = "worker",
    times: int = 1,
    **settings: Any,
) -> list[Cost]:
    """Failed runs one after another: what each nack costs."""
    delivery = RetryPolicy(max_attempts=times + 1, initial_backoff_ms=0, max_backoff_ms=0)
    queue = bench.queue(delivery=delivery, **settings)
    enqueue(queue, Draft(body))
    failure = RunFailure(error_type, error)

    def fail(found: Claim) -> Cost:
        bench.clock.forward(1)
        return bench.measure(1, lambda: nack(queue, found.entry, found.message, failure))

    return [fail(claim(queue, owner=owner).claims[0]) for _ in range(times)]


def extension(bench: Bench, count: int = 1) -> Cost:
    queue = bench.queue()
    filled(queue, count)
    claims = held(queue, count)
    return bench.measure(count, lambda: extend(queue, [found.entry for found in claims]))


def giving_back(bench: Bench, count: int = 1) -> Cost:
    queue = bench.queue()
    filled(queue, count)
    claims = held(queue, count)
    return bench.measure(count, lambda: release(queue, [found.entry for found in claims]))


def burial(bench: Bench, body: bytes = SMALL) -> Cost:
    queue = bench.queue()
    enqueue(queue, Draft(body))
    (found,) = held(queue)
    return bench.measure(1, lambda: reject(queue, found.entry, found.message, RunFailure("ValueError", "no")))


def broken_claim(bench: Bench) -> Cost:
    queue = bench.queue()
    enqueue(queue, Draft(SMALL))
    (found,) = held(queue)
    return bench.measure(1, lambda: break_claim(queue, found.message.id))


def orphan(bench: Bench) -> Cost:
    """An entry whose sender died before its commit, taken out by the sweep, its claim included."""
    queue = bench.queue()
    place = ready_place(bench.tenant, queue.spec, key="", message_id="orphan", priority=50, order="0" * 32)
    entry = Entry(place, "orphan", "nonce", bench.clock(), bench.clock() + DAY, 50, "correlation")
    assert bench.store.put_entries([entry]) == [APPLIED]
    bench.clock.forward(ORPHAN_GRACE_MS + 1)
    queue.state(fresh=True)
    return bench.measure(1, lambda: clear_doomed(queue, "sweep"))


def document(bench: Bench) -> Cost:
    queue = bench.queue()
    enqueue(queue, Draft(SMALL))
    (found,) = held(queue)
    return bench.measure(1, lambda: write_workflow_state(queue, found.entry, b'{"step": 1}', 0))


def duplicate(bench: Bench, body: bytes = SMALL) -> Cost:
    queue = bench.queue()
    enqueue(queue, Draft(body, idempotency_key="again"))
    enqueue(queue, Draft(SMALL))  # so that a credit is in hand
    return bench.measure(1, lambda: enqueue(queue, Draft(body, idempotency_key="again")))


def reused_key(bench: Bench) -> Cost:
    """A repeat whose body is another, and the look at which it is."""
    queue = bench.queue()
    enqueue(queue, Draft(SMALL, idempotency_key="again"))
    enqueue(queue, Draft(SMALL))  # so that a credit is in hand

    def tell() -> None:
        known = enqueue(queue, Draft(b"another", idempotency_key="again")).existing
        assert known is not None
        assert not queue.runtime.bodies.is_body_of(known, b"another")

    return bench.measure(1, tell)


def idle_poll(bench: Bench) -> Cost:
    queue = bench.queue()
    return bench.measure(1, lambda: claim(queue, owner="worker", limit=BATCH))


def claimed_at_depth(bench: Bench, depth: int) -> Cost:
    queue = bench.queue()
    filled(queue, depth)
    queue.state()
    return bench.measure(BATCH, lambda: held(queue, BATCH))


def ack_with_a_write(bench: Bench) -> Cost:
    """An ack in one transaction with a write of the handler's own, below 1 KB."""
    queue, orders = bench.queue(), bench.orders()
    enqueue(queue, Draft(SMALL))
    (found,) = held(queue)
    queue.state()
    staged = writes(orders.put(7))

    def end() -> None:
        follow_up(queue, [end_with(queue, found.entry, staged, b'{"ok":true}')])

    return bench.measure(1, end)


def enqueue_with_a_write(bench: Bench) -> Cost:
    """An enqueue in one transaction with a write of the caller's own, below 1 KB."""
    queue, orders = bench.queue(), bench.orders()
    staged = writes(orders.put(8))
    return bench.measure(1, lambda: accept_with(bench.runtime, [Enqueuing(queue, Draft(SMALL))], staged))


def step_once(bench: Bench, *, kept: bool) -> Cost:
    """A step that runs, or one that an earlier run of the same message did."""
    queue = bench.queue()
    enqueue(queue, Draft(SMALL))
    (found,) = held(queue)
    if kept:
        once(ClaimState(queue, found.entry), "charge", lambda: "ch_1")
    return bench.measure(1, lambda: once(ClaimState(queue, found.entry), "charge", lambda: "ch_1"))
