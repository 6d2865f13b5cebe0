"""`make orders`: an order table and a queue; the worker is killed a thousand times; every order is charged once.

    python -m tests.examples.orders --kills 1000 --seed 7

The same is done with the same code without `transact`, side by side, to show what it is for. Workers are real
processes on DynamoDB Local, killed by their process id: at a step of the handler, or some milliseconds after it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.queue import Runtime
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine
from tests.examples import shop

#: So many orders wait whenever a worker starts: there is always something to kill it at.
WAITING = 10
#: A worker goes through up to so many steps before it is killed.
MOST_STEPS = 6
#: Half of the kills come so many seconds after a step, at most: while an ack is on its way.
LATEST_S = 0.02
#: No run takes longer: what is not over by then has failed.
MOST_S = 1_800.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the orders."""

    orders: int
    kills: int
    at_a_step: int  #: of the kills: right after the handler's own write or staging
    charges: Counter[int]  #: how often charged → how many orders
    dead: int
    seconds: float

    @property
    def once(self) -> int:
        return self.charges[1]

    @property
    def doubled(self) -> int:
        return sum(orders for times, orders in self.charges.items() if times > 1)


class Workers:
    """Starts one worker at a time, and kills it."""

    def __init__(self, process: subprocess.Popen[bytes], rng: random.Random) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._rng = rng

    def start_and_kill(self) -> str:
        """Let a worker go through some steps and kill it: the step it was last at; empty where it ended by itself."""
        pid, at = self._start(), ""
        for left in range(self._rng.randrange(1, MOST_STEPS + 1), 0, -1):
            at = self._line()
            if at == "gone":
                return ""
            if left > 1:
                self._tell(b"g")
        if self._rng.random() < 0.5:
            at += " and went on"
            self._tell(b"g")
            time.sleep(self._rng.random() * LATEST_S)
        os.kill(pid, signal.SIGKILL)
        while self._line() != "gone":
            pass
        return at

    def finish(self) -> None:
        """A worker that nobody kills, until it has nothing to do."""
        self._start()
        while self._line() != "gone":
            self._tell(b"g")

    def _start(self) -> int:
        self._tell(b"s")
        word, pid = self._line().split()
        assert word == "worker"
        return int(pid)

    def _tell(self, byte: bytes) -> None:
        self._input.write(byte)
        self._input.flush()

    def _line(self) -> str:
        line = self._output.readline().decode().strip()
        assert line, "the process that starts the workers is gone"
        return line


@contextmanager
def workers(url: str, names: TableNames, way: str, rng: random.Random) -> Iterator[Workers]:
    command = [sys.executable, "-m", "tests.examples.order_worker", way, *names]
    environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL_DYNAMODB": url}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield Workers(process, rng)
            process.communicate(b"q", timeout=30)
        finally:
            process.kill()


def run(url: str, way: str, kills: int, seed: int) -> Outcome:
    """Place orders, kill workers until there were so many kills, let the rest be done, and count the charges."""
    began, rng = time.monotonic(), random.Random(seed)
    prefix = f"shop-{way.replace(' ', '-')}-{os.getpid()}-{seed}"
    names = TableNames(f"{prefix}-queue", f"{prefix}-dead")
    create_tables(names, endpoint_url=url, region=REGION)
    client = dynamodb_client(endpoint_url=url, region=REGION)
    runtime, defined = Runtime(DynamoStore(client, names), MemoryBlobs()), shop.definitions()
    queue = runtime.queue("default", defined.queue(shop.QUEUE).spec)
    orders, killed, at_a_step = 0, 0, 0

    def unfinished() -> int:
        """By the entries themselves: what a killed worker did not count is counted by the next sweep."""
        assert time.monotonic() - began < MOST_S, "it takes too long"
        return sum(len(queue.store.read_lane(pk, " ", "~", WAITING).items) for pk in queue.partitions())

    with workers(url, names, way, rng) as shop_workers:
        while killed < kills:
            for _ in range(WAITING - unfinished()):
                orders += 1
                shop.place_order(runtime, defined, f"{prefix}-{orders}")
            at = shop_workers.start_and_kill()
            killed += bool(at)
            at_a_step += at == "charged"
        while unfinished():
            shop_workers.finish()
    charges = _charges(client, [f"{prefix}-{number}" for number in range(1, orders + 1)])
    dead = len(list_dead_letters(queue, limit=100).items)
    return Outcome(orders, killed, at_a_step, charges, dead, time.monotonic() - began)


def _charges(client: Any, numbers: list[str]) -> Counter[int]:
    found: Counter[int] = Counter()
    for number in numbers:
        item = client.get_item(TableName=shop.TABLE, Key={"number": {"S": number}}, ConsistentRead=True)["Item"]
        found[int(item["charges"]["N"])] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = Table(title=f"Orders charged by a worker that is killed {options.kills} times (seed {options.seed})")
    for heading in ("", "orders", "kills", "charged once", "charged again", "not charged", "dead letters", "seconds"):
        table.add_column(heading, justify="right" if heading else "left")
    outcomes = {}
    with own_engine() as url:
        shop.create_table(dynamodb_client(endpoint_url=url, region=REGION))
        for way in shop.WAYS:
            made = outcomes[way] = run(url, way, options.kills, options.seed)
            counts = (made.orders, made.kills, made.once, made.doubled, made.charges[0], made.dead)
            table.add_row(way, *map(str, counts), f"{made.seconds:.0f}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    safe, plain = outcomes["with transact"], outcomes["without"]
    kept = safe.once == safe.orders and not safe.dead and plain.doubled > 0
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
