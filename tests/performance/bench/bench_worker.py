"""How fast one worker drains no-op messages: against the bare calls, a classic design, and its peers.

    python -m tests.performance.bench.bench_worker [--messages 2000] [--rounds 3] [--no-peers]

Workload: messages with a JSON body of 250 bytes, in the queue before the clock starts; the handler does nothing; one
worker process, concurrency 10, results not kept, DynamoDB Local on the same machine. The floor is the very calls that
the worker made, made again one after the other with nothing around them, on the same client. Classic is one worker of
the one-call-a-step design (query an index, conditional update, delete), on the same client. Rounds are interleaved;
rates and CPU are medians. Peers run the same number of no-op jobs with one worker on their own engines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Queue, Runtime
from millrace.handlers.batches import BatchSettings, Outcome
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, QueueSpec
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import MinimalClient, minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import RunContext, Worker, WorkerSettings
from millrace.worker.runners import Together
from tests.engines import own_engine
from tests.performance.bench.classic import ClassicQueue
from tests.performance.bench.floor import RecordingClient, redirected, replay
from tests.performance.bench.peers import PeerCost, Skipped, celery_cost, dramatiq_cost, procrastinate_cost, rq_cost

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HERE = TableNames("millrace-work-queue", "millrace-work-dead-letters")
THERE = TableNames("millrace-work-floor-queue", "millrace-work-floor-dead-letters")
BODY = b'{"n":1,"pad":"' + b"x" * 235 + b'"}'
FLOOR_AIM, CLASSIC_AIM = 0.8, 5.0
#: Classic and RQ with its forks are slow: fewer messages give the same rate.
FEWER = 5
#: Writers to something outside: so many at once, each call so long.
WRITERS, CALL_S = 2, 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """What one message took."""

    wall_s: float
    cpu_s: float


def timed(work: Callable[[], object], messages: int) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost((time.perf_counter() - wall) / messages, (time.process_time() - cpu) / messages)


class Course:
    """The same messages for everyone."""

    def __init__(self, url: str, messages: int) -> None:
        environment = {**CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL_DYNAMODB": url}
        client = minimal_client(environment)
        assert isinstance(client, MinimalClient)
        self.client = client
        self.messages = messages

    def worker(
        self, name: str
    ) -> tuple[Cost, list[tuple[str, dict[str, object]]], list[tuple[str, dict[str, object]]]]:
        """Drain a filled queue; the calls that filled it, and those that drained it."""
        recording = RecordingClient(self.client)
        queue = self._queue(name, cast("DynamoDBClient", recording))
        for start in range(0, self.messages, 100):
            enqueue_all(queue, [Draft(BODY) for _ in range(min(100, self.messages - start))])
        filling = recording.taken()
        worker = Worker(queue, lambda _context: None, settings=WorkerSettings(patience_ms=0, concurrency=10))
        cost = timed(worker.run, self.messages)
        return cost, filling, recording.taken()

    def writer(self, name: str, batch: int | None) -> Cost:
        """Drain a filled queue with a handler that calls something, for each message or for a batch."""
        queue = self._queue(name, cast("DynamoDBClient", self.client))
        count = self.messages if batch else max(50, self.messages // FEWER)
        for start in range(0, count, 100):
            enqueue_all(queue, [Draft(BODY) for _ in range(min(100, count - start))])

        def write(contexts: Sequence[RunContext]) -> list[Outcome]:
            time.sleep(CALL_S)
            return [Outcome() for _ in contexts]

        together = Together(BatchSettings(batch, wait_ms=200), write) if batch else None
        settings = WorkerSettings(patience_ms=1, concurrency=WRITERS)
        worker = Worker(queue, lambda context: write([context])[0].result, settings=settings, together=together)
        return timed(worker.run, count)

    def _queue(self, name: str, client: DynamoDBClient) -> Queue:
        spec = QueueSpec(name, idempotency=Idempotency(cache_result=False))
        return Runtime(DynamoStore(client, HERE), MemoryBlobs()).queue("bench", spec)

    def floor(
        self, filling: list[tuple[str, dict[str, object]]], draining: list[tuple[str, dict[str, object]]]
    ) -> Cost:
        client = cast("DynamoDBClient", self.client)
        replay(client, redirected(filling, HERE, THERE))
        calls = redirected(draining, HERE, THERE)
        return timed(lambda: replay(client, calls), self.messages)

    def classic(self, name: str) -> Cost:
        queue = ClassicQueue(cast("DynamoDBClient", self.client), name)
        count = max(50, self.messages // FEWER)
        for _ in range(count):
            queue.enqueue(BODY)
        return timed(lambda: [queue.claim_and_delete() for _ in range(count)], count)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Drain rate of a worker.")
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    given = parser.parse_args(arguments)
    console = Console()
    costs: dict[str, list[Cost]] = defaultdict(list)
    with own_engine(HERE, THERE) as url, console.status("measuring …") as shown:
        ClassicQueue.create_table(_boto(url))
        Course(url, 200).worker("Warm")
        for number in range(given.rounds):
            shown.update(f"round {number + 1} of {given.rounds}")
            course = Course(url, given.messages)
            cost, filling, draining = course.worker(f"Round{number}")
            costs["worker"].append(cost)
            costs["floor"].append(course.floor(filling, draining))
            costs["classic"].append(course.classic(f"round-{number}"))
            costs["singly"].append(course.writer(f"Singly{number}", None))
            costs["batch of 100"].append(course.writer(f"Batch{number}", 100))
    console.print(_table(costs))
    console.print(_batches(costs))
    if not given.no_peers:
        console.print(_peers(given.messages))
    return 0


def _boto(url: str) -> DynamoDBClient:
    from millrace.stores.dynamodb.client import dynamodb_client

    return dynamodb_client(endpoint_url=url, region=REGION)


def _table(costs: dict[str, list[Cost]]) -> Table:
    table = Table(
        "", "messages/s", "CPU ms each", "worker's rate to it", "by CPU", "aim", title="Drain of no-op messages"
    )
    own = costs["worker"]
    for name, aim in (("worker", ""), ("floor", f"{FLOOR_AIM}"), ("classic", f"{CLASSIC_AIM:g} times")):
        runs = costs[name]
        wall = median(other.wall_s / mine.wall_s for mine, other in zip(own, runs, strict=True))
        cpu = median(other.cpu_s / mine.cpu_s for mine, other in zip(own, runs, strict=True))
        table.add_row(
            name,
            f"{1 / median(cost.wall_s for cost in runs):,.0f}",
            f"{median(cost.cpu_s for cost in runs) * 1000:.2f}",
            f"{wall:.2f}",
            f"{cpu:.2f}",
            aim,
        )
    return table


def _batches(costs: dict[str, list[Cost]]) -> Table:
    title = f"A handler that calls something for {CALL_S * 1000:g} ms, {WRITERS} calls at once"
    table = Table("", "messages/s", "CPU ms each", title=title)
    for name in ("singly", "batch of 100"):
        wall, cpu = median(cost.wall_s for cost in costs[name]), median(cost.cpu_s for cost in costs[name])
        table.add_row(name, f"{1 / wall:,.0f}", f"{cpu * 1000:.2f}")
    return table


def _peers(jobs: int) -> Table:
    table = Table("peer", "jobs/s", "CPU ms each", "", title=f"{jobs:,} no-op jobs, one worker")
    peers: dict[str, Callable[[], PeerCost]] = {
        "Procrastinate on PostgreSQL, concurrency 10": lambda: procrastinate_cost(jobs),
        "RQ on Redis, SimpleWorker": lambda: rq_cost(jobs, fork=False),
        "RQ on Redis, Worker (a fork a job)": lambda: rq_cost(max(50, jobs // FEWER), fork=True),
        "Dramatiq on Redis, 10 threads": lambda: dramatiq_cost(jobs),
        "Celery on Redis, 10 threads": lambda: celery_cost(jobs),
    }
    for name, measure in peers.items():
        try:
            cost = measure()
            table.add_row(name, f"{1 / cost.wall_s:,.0f}", f"{cost.cpu_s * 1000:.2f}", "")
        except Skipped as note:
            table.add_row(name, "–", "–", str(note))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
