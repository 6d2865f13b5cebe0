"""`make bench`: the engine against the floor and against a classic design, side by side in one run.

Rounds are interleaved, so that noise hits all alike; figures are medians over rounds, ratios medians of each round's.
Bodies are JSON of about 3 KB. `millrace` runs on boto3's client, as floor and classic do; `minimal` is the same library
on its own client. CPU is that of this client process alone; the database runs in its own.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.minimal_client import MinimalClient, minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine
from tests.performance.bench.classic import ClassicQueue
from tests.performance.bench.depth import measure_depths
from tests.performance.bench.floor import RecordingClient, redirected, replay

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ENGINE, MINIMAL, FLOOR, CLASSIC = "millrace", "minimal", "floor", "classic"
HERE = TableNames("millrace-bench-queue", "millrace-bench-dead-letters")
THERE = TableNames("millrace-floor-queue", "millrace-floor-dead-letters")
MINIMAL_TABLES = TableNames("millrace-minimal-queue", "millrace-minimal-dead-letters")
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


def body(rng: random.Random) -> bytes:
    """JSON of about 3 KB with the look of a provider's payload: some of it repeats, some does not."""
    items = [
        {
            "id": f"evt_{rng.getrandbits(80):020x}",
            "type": rng.choice(["incident.triggered", "incident.resolved", "charge.failed"]),
            "url": f"https://api.example.com/v1/objects/{rng.getrandbits(48)}",
            "at": 1_800_000_000 + rng.randrange(10**6),
            "summary": " ".join(rng.choice(["disk", "latency", "error", "node", "queue", "is high"]) for _ in range(6)),
        }
        for _ in range(15)
    ]
    return json.dumps({"events": items}).encode()


class Engine:
    """The library on its tables; remembers its calls for the floor."""

    def __init__(self, client: DynamoDBClient | MinimalClient, names: TableNames) -> None:
        self.recorder = RecordingClient(client)
        store = DynamoStore(cast("DynamoDBClient", self.recorder), names)
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


@dataclass(frozen=True, slots=True)
class Contenders:
    """Who is measured: the library on boto3's client and on the minimal one, the bare calls, the classic design."""

    engine: Engine
    minimal: Engine
    floor: DynamoDBClient
    classic: ClassicQueue


def round_of(contenders: Contenders, rng: random.Random, singles: int) -> Figures:
    """Every step once by every contender."""
    figures: Figures = defaultdict(list)
    for size, count in ((1, singles), (BATCH, singles * 10)):
        drafts = [Draft(body(rng), correlation_id="bench") for _ in range(count)]
        mode = "singly" if size == 1 else f"by {size}"
        for verb in ("enqueue", "claim to ack"):
            for name, engine in ((ENGINE, contenders.engine), (MINIMAL, contenders.minimal)):
                cost = timed(partial(_step, engine, verb, drafts, size), count)
                figures[f"{verb} {mode}", name].append(cost)
            contenders.minimal.recorder.taken()
            calls = redirected(contenders.engine.recorder.taken(), HERE, THERE)
            figures[f"{verb} {mode}", FLOOR].append(timed(partial(replay, contenders.floor, calls), count))
    bodies = [body(rng) for _ in range(singles)]
    figures["enqueue", CLASSIC].append(timed(partial(_each, contenders.classic.enqueue, bodies), singles))
    figures["claim to ack", CLASSIC].append(timed(partial(_each, contenders.classic.claim_and_delete, bodies), singles))
    return figures


def _step(engine: Engine, verb: str, drafts: list[Draft], size: int) -> None:
    if verb == "enqueue":
        engine.enqueue(drafts, size)
    else:
        engine.claim_to_ack(len(drafts), size)


def _each(work: Callable[[bytes], object], bodies: list[bytes]) -> None:
    for one in bodies:
        work(one)


def measure(client: DynamoDBClient, rounds: int, singles: int, tick: Callable[[], None]) -> Figures:
    """All rounds but the first, in which everything warms up."""
    for names in (HERE, THERE, MINIMAL_TABLES):
        create_tables(names, endpoint_url=client.meta.endpoint_url, region=REGION)
    ClassicQueue.create_table(client)
    rng = random.Random(1)
    minimal = minimal_client({**CREDENTIALS, "AWS_ENDPOINT_URL_DYNAMODB": client.meta.endpoint_url})
    contenders = Contenders(
        Engine(client, HERE), Engine(minimal, MINIMAL_TABLES), client, ClassicQueue(client, "bench")
    )
    figures: Figures = defaultdict(list)
    for number in range(rounds + 1):
        for name, costs in round_of(contenders, rng, singles).items():
            figures[name] += costs if number else []
        tick()
    return figures


def ratio(upper: list[float], lower: list[float]) -> float:
    return median(above / below for above, below in zip(upper, lower, strict=True))


def show(figures: Figures, console: Console) -> None:
    """Two tables. The aims are judged on the minimal client: it is the one that the functions deploy."""
    speed = _table("Messages a second", "minimal of the floor", "boto3 of the floor")
    cpu = _table("Client CPU, ms a message", "classic ÷ minimal", "classic ÷ boto3")
    for step in [step for step, contender in figures if contender == ENGINE]:
        classic = "enqueue" if step.startswith("enqueue") else "claim to ack"
        contest = [figures[step, MINIMAL], figures[step, ENGINE], figures[step, FLOOR], figures[classic, CLASSIC]]
        walls = [[cost.wall_s for cost in costs] for costs in contest]
        cpus = [[cost.cpu_s for cost in costs] for costs in contest]
        batched = not step.endswith("singly")
        of_floor = [_judged(ratio(walls[2], wall), FLOOR_AIM, batched) for wall in walls[:2]]
        less = [_judged(ratio(cpus[3], of), CPU_AIM, batched) for of in cpus[:2]]
        speed.add_row(step, *(f"{1 / median(wall):.0f}" for wall in walls), *of_floor)
        cpu.add_row(step, *(f"{1000 * median(of):.3f}" for of in cpus), *less)
    console.print(speed, cpu)
    console.print(
        f"Aims for batches: {FLOOR_AIM} of the floor's throughput, {CPU_AIM:.0f} times less CPU than classic."
    )


def _table(title: str, *ratios: str) -> Table:
    table = Table(title=f"{title} (bodies of 3 KB)")
    table.add_column("", no_wrap=True)
    for heading in ("millrace, minimal", "millrace, boto3", FLOOR, CLASSIC, *ratios):
        table.add_column(heading, justify="right")
    return table


def _judged(value: float, aim: float, batched: bool) -> str:
    """Coloured where there is an aim."""
    if not batched:
        return f"{value:.2f}"
    return f"[green]{value:.2f}[/green]" if value >= aim else f"[red]{value:.2f}[/red]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about half a minute, and shallower queues")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--no-depth", action="store_true", help="leave out the claim rate by depth")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 9)
    depths = [] if options.no_depth else [100, 10_000] if options.quick else [100, 10_000, 100_000]
    console = Console(width=None if sys.stdout.isatty() else 110)  # a pipe tells no width, and 80 cuts headings
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with own_engine() as url, Progress(*columns, console=console, transient=True) as bar:
        client = dynamodb_client(endpoint_url=url, region=REGION)
        task = bar.add_task("rounds", total=rounds + 1)
        figures = measure(client, rounds, 20 if options.quick else 40, lambda: bar.advance(task))
        filling = bar.add_task("depths", total=sum(depths) + rounds)
        by_depth = measure_depths(client, HERE, depths, rounds, lambda done: bar.advance(filling, done))
    show(figures, console)
    if by_depth:
        by_depth.show(console)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
