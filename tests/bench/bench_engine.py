"""`make bench`: the engine against the floor and against a classic design, side by side in one run.

Rounds are interleaved, so that noise hits all alike; figures are medians over rounds, ratios medians of each round's.
Bodies are JSON of about 3 KB. CPU is that of this client process alone; the database runs in its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION, DynamoDbLocal
from millrace.claim import claim
from millrace.enqueue import enqueue, enqueue_all
from millrace.finish import ack
from millrace.message import Draft
from millrace.queue import Queue, Runtime
from millrace.spec import QueueSpec
from millrace.stores.dynamodb import DynamoStore, TableNames, dynamodb_client
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory import MemoryBlobs
from tests.bench.classic import ClassicQueue
from tests.bench.depth import measure_depths
from tests.bench.floor import RecordingClient, redirected, replay

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ENGINE, FLOOR, CLASSIC = "millrace", "floor", "classic"
HERE = TableNames("millrace-bench-queue", "millrace-bench-dead-letters")
THERE = TableNames("millrace-floor-queue", "millrace-floor-dead-letters")
BATCH = 25
FLOOR_AIM, CPU_AIM = 0.85, 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one message took."""

    wall_s: float
    cpu_s: float


Figures = dict[tuple[str, str], list[Cost]]  #: (step, contender) → one cost a round


def timed(work: Callable[[], object], messages: int) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost((time.perf_counter() - wall) / messages, (time.process_time() - cpu) / messages)


def body(luck: random.Random) -> bytes:
    """JSON of about 3 KB with the look of a provider's payload: some of it repeats, some does not."""
    items = [
        {
            "id": f"evt_{luck.getrandbits(80):020x}",
            "type": luck.choice(["incident.triggered", "incident.resolved", "charge.failed"]),
            "url": f"https://api.example.com/v1/objects/{luck.getrandbits(48)}",
            "at": 1_800_000_000 + luck.randrange(10**6),
            "summary": " ".join(
                luck.choice(["disk", "latency", "error", "node", "queue", "is high"]) for _ in range(6)
            ),
        }
        for _ in range(15)
    ]
    return json.dumps({"events": items}).encode()


class Engine:
    """The library on its tables; remembers its calls for the floor."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.recorder = RecordingClient(client)
        store = DynamoStore(cast("DynamoDBClient", self.recorder), HERE)
        self.queue: Queue = Runtime(store, MemoryBlobs()).queue("bench", QueueSpec("Bench"))

    def enqueue(self, drafts: list[Draft], size: int) -> None:
        if size == 1:
            for draft in drafts:
                enqueue(self.queue, draft)
        else:
            for start in range(0, len(drafts), size):
                enqueue_all(self.queue, drafts[start : start + size])

    def claim_to_ack(self, count: int, size: int) -> None:
        for _ in range(0, count, size):
            claims = claim(self.queue, owner="bench", limit=size).claims
            assert len(claims) == size
            assert ack(self.queue, [one.entry for one in claims], [b'{"ok":true}'] * size) == [None] * size


def round_of(
    engine: Engine, client: DynamoDBClient, classic: ClassicQueue, luck: random.Random, singles: int
) -> Figures:
    """Every step once by every contender."""
    figures: Figures = defaultdict(list)
    for size, count in ((1, singles), (BATCH, singles * 10)):
        drafts = [Draft(body(luck), correlation_id="bench") for _ in range(count)]
        mode = "singly" if size == 1 else f"in batches of {size}"
        steps: list[tuple[str, Callable[[], object]]] = [
            (f"enqueue {mode}", lambda d=drafts, s=size: engine.enqueue(d, s)),  # type: ignore[misc]
            (f"claim to ack {mode}", lambda c=count, s=size: engine.claim_to_ack(c, s)),  # type: ignore[misc]
        ]
        for step, work in steps:
            figures[step, ENGINE].append(timed(work, count))
            calls = redirected(engine.recorder.taken(), HERE, THERE)
            figures[step, FLOOR].append(timed(lambda c=calls: replay(client, c), count))  # type: ignore[misc]
    bodies = [body(luck) for _ in range(singles)]
    figures["enqueue", CLASSIC].append(timed(lambda: [classic.enqueue(one) for one in bodies], singles))
    figures["claim to ack", CLASSIC].append(timed(lambda: [classic.claim_and_delete() for _ in bodies], singles))
    return figures


def measure(client: DynamoDBClient, rounds: int, singles: int, tick: Callable[[], None]) -> Figures:
    """All rounds but the first, in which everything warms up."""
    for names in (HERE, THERE):
        create_tables(names, endpoint_url=client.meta.endpoint_url, region=REGION)
    ClassicQueue.create_table(client)
    luck = random.Random(1)
    engine, classic = Engine(client), ClassicQueue(client, "bench")
    figures: Figures = defaultdict(list)
    for number in range(rounds + 1):
        for name, costs in round_of(engine, client, classic, luck, singles).items():
            figures[name] += costs if number else []
        tick()
    return figures


def ratio(upper: list[float], lower: list[float]) -> float:
    return median(above / below for above, below in zip(upper, lower, strict=True))


def show(figures: Figures, console: Console) -> bool:
    """The table, and whether the aims are met."""
    table = Table(title="Messages a second, and client CPU a message (bodies of 3 KB)")
    table.add_column("")
    for heading in ("a second", "floor", "of the floor", "classic", "CPU ms", "floor", "classic", "classic ÷ ours"):
        table.add_column(heading, justify="right")
    met = True
    for step, contender in list(figures):
        if contender != ENGINE:
            continue
        ours, floor = figures[step, ENGINE], figures[step, FLOOR]
        classic = figures["enqueue" if step.startswith("enqueue") else "claim to ack", CLASSIC]
        of_floor = ratio([cost.wall_s for cost in floor], [cost.wall_s for cost in ours])
        less_cpu = ratio([cost.cpu_s for cost in classic], [cost.cpu_s for cost in ours])
        batched = "batches" in step
        met &= not batched or (of_floor >= FLOOR_AIM and less_cpu >= CPU_AIM)
        speeds = [1 / median(cost.wall_s for cost in costs) for costs in (ours, floor, classic)]
        cpus = [1000 * median(cost.cpu_s for cost in costs) for costs in (ours, floor, classic)]
        table.add_row(
            step, f"{speeds[0]:.0f}", f"{speeds[1]:.0f}", _judged(of_floor, FLOOR_AIM, aimed=batched), f"{speeds[2]:.0f}",
            *(f"{cpu:.3f}" for cpu in cpus), _judged(less_cpu, CPU_AIM, aimed=batched),
        )  # fmt: skip
    console.print(table)
    console.print(
        f"Aims for batches: {FLOOR_AIM} of the floor's throughput, {CPU_AIM:.0f} times less CPU than the classic design."
    )
    return met


def _judged(value: float, aim: float, *, aimed: bool) -> str:
    if not aimed:
        return f"{value:.2f}"
    return f"[green]{value:.2f}[/green]" if value >= aim else f"[red]{value:.2f}[/red]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about half a minute, and shallower queues")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--no-depth", action="store_true", help="leave out the claim rate by depth")
    options = parser.parse_args()
    os.environ.update(CREDENTIALS)
    rounds = options.rounds or (3 if options.quick else 9)
    depths = [] if options.no_depth else [100, 10_000] if options.quick else [100, 10_000, 100_000]
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with DynamoDbLocal() as running, Progress(*columns, console=console, transient=True) as bar:
        client = dynamodb_client(endpoint_url=running.url, region=REGION)
        task = bar.add_task("rounds", total=rounds + 1)
        figures = measure(client, rounds, 20 if options.quick else 40, lambda: bar.advance(task))
        filling = bar.add_task("depths", total=sum(depths) + rounds)
        by_depth = measure_depths(client, HERE, depths, rounds, lambda done: bar.advance(filling, done))
    met = show(figures, console)
    if by_depth:
        by_depth.show(console)
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
