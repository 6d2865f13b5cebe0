"""`make bench`: what a transaction costs beside the plain way, in write units and in time, side by side in one run.

The plain way makes the app's write (an order, below 1 KB) and the queue's one after the other: two chances to die in
between. Rounds are interleaved, so that noise hits both alike; times are medians over rounds, on the client that the
functions deploy; units are counted on boto3's, without the counters that many messages share.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack, follow_up
from millrace.engine.queue import Queue, Runtime
from millrace.engine.transact import Enqueuing, accept_with, end_with
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.app_table import Orders, writes
from tests.engines import own_engine
from tests.performance.bench.bench_engine import timed
from tests.performance.costs.measures import SMALL
from tests.performance.costs.meter import Meter

NAMES = TableNames("millrace-transactions-queue", "millrace-transactions-dead-letters")
RESULT = b'{"ok":true}'
#: (step, way): the steps of both ways, in their order.
STEPS = (
    ("enqueue with an order", "plain"),
    ("enqueue with an order", "transaction"),
    ("ack with an order", "plain"),
    ("ack with an order", "transaction"),
)


class Ways:
    """Both ways on one queue each."""

    def __init__(self, client: Any, boto3_client: Any, numbers: Iterator[int]) -> None:
        store = DynamoStore(client, NAMES)
        self._runtime = Runtime(store, MemoryBlobs())
        self._orders = Orders(store, "bench", boto3_client)
        self._queues = {way: self._runtime.queue("bench", QueueSpec(f"Bench_{way}")) for _, way in STEPS}
        self._numbers = numbers

    def run(self, step: str, way: str, times: int) -> None:
        work = {
            ("enqueue with an order", "plain"): self._plain_enqueue,
            ("enqueue with an order", "transaction"): self._enqueue_with,
            ("ack with an order", "plain"): self._plain_ack,
            ("ack with an order", "transaction"): self._ack_with,
        }[step, way]
        for _ in range(times):
            work(self._queues[way])

    def _plain_enqueue(self, queue: Queue) -> None:
        self._orders.client.put_item(**self._orders.put(next(self._numbers))["Put"])
        enqueue(queue, Draft(SMALL))

    def _enqueue_with(self, queue: Queue) -> None:
        staged = writes(self._orders.put(next(self._numbers)))
        accept_with(self._runtime, [Enqueuing(queue, Draft(SMALL))], staged)

    def _plain_ack(self, queue: Queue) -> None:
        (held,) = claim(queue, owner="bench").claims
        self._orders.client.put_item(**self._orders.put(next(self._numbers))["Put"])
        assert ack(queue, [held.entry], [RESULT]) == [None]

    def _ack_with(self, queue: Queue) -> None:
        (held,) = claim(queue, owner="bench").claims
        staged = writes(self._orders.put(next(self._numbers)))
        follow_up(queue, [end_with(queue, held.entry, staged, RESULT)])


def units(boto3_client: Any, numbers: Iterator[int], times: int) -> dict[tuple[str, str], float]:
    """Write units for each message; a claim's is among an ack's."""
    ways = Ways(boto3_client, boto3_client, numbers)
    meter = Meter(boto3_client, reports_batches=False)
    found = {}
    for step, way in STEPS:
        meter.reset()
        ways.run(step, way, times)
        found[step, way] = sum(c.paid for c in meter.charges if not c.is_read and not c.accounting) / times
    return found


def times(ways: Ways, rounds: int, singles: int) -> dict[tuple[str, str], list[float]]:
    """Milliseconds for each message, a figure a round; the first round, which warms up, is left out."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for step, way in STEPS:
            cost = timed(partial(ways.run, step, way, singles), singles)
            found[step, way] += [1000 * cost.wall_s] if number else []
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    options = parser.parse_args()
    rounds, singles = (3, 20) if options.quick else (9, 100)
    with own_engine() as url:
        create_tables(NAMES, endpoint_url=url, region=REGION)
        boto3_client, numbers = dynamodb_client(endpoint_url=url, region=REGION), count()
        paid = units(boto3_client, numbers, 10)
        minimal = minimal_client({**CREDENTIALS, "AWS_ENDPOINT_URL_DYNAMODB": url})
        took = times(Ways(minimal, None, numbers), rounds, singles)
    table = Table(title="An order and its message, one at a time (units: with the claim, without counters)")
    for heading in ("", "units", "ms", "units of the plain way", "time of the plain way"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for step, way in STEPS:
        ratios = [made / plain for made, plain in zip(took[step, way], took[step, "plain"], strict=True)]
        more = [f"{paid[step, way] / paid[step, 'plain']:.2f}", f"{median(ratios):.2f}"]
        table.add_row(f"{step}, {way}", f"{paid[step, way]:.1f}", f"{median(took[step, way]):.2f}", *more)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
