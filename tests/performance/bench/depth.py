"""Claim rate with few and with very many messages waiting: it must stay flat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from millrace.engine.claim import claim
from millrace.engine.finish import release
from millrace.engine.queue import Queue, Runtime
from millrace.model.ids import Orders
from millrace.model.keys import ready_place
from millrace.model.message import Body, Entry, Message
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import Item, entry_item, message_item
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LIMIT = 25
CLAIMS_A_ROUND = 8
#: Only the head of a queue is ever claimed here, so only its messages are written.
HEAD = 100


@dataclass(frozen=True, slots=True)
class ByDepth:
    """Seconds that a claimed message took, for each depth, one figure a round."""

    seconds: dict[int, list[float]]

    def show(self, console: Console) -> None:
        table = Table(title=f"Claims a second, {LIMIT} at a time, by the number of messages waiting")
        for heading in ("waiting", "claims a second", "of the rate at the least"):
            table.add_column(heading, justify="right")
        least = self.seconds[min(self.seconds)]
        for depth, costs in self.seconds.items():
            share = median(first / this for first, this in zip(least, costs, strict=True))
            table.add_row(f"{depth:,}", f"{1 / median(costs):.0f}", f"{share:.2f}")
        console.print(table)


def measure_depths(
    client: DynamoDBClient, names: TableNames, depths: list[int], rounds: int, tick: Callable[[int], None]
) -> ByDepth | None:
    """Fill a queue for each depth, then claim from their heads in turns; what was claimed is given back untimed."""
    if not depths:
        return None
    runtime = Runtime(DynamoStore(client, names), MemoryBlobs())
    queues = {depth: runtime.queue(f"deep{depth}", QueueSpec("Deep")) for depth in depths}
    for depth, queue in queues.items():
        fill(client, names.queue, queue, depth, tick)
    seconds: dict[int, list[float]] = {depth: [] for depth in depths}
    for number in range(rounds + 1):
        for depth, queue in queues.items():
            took = _claims(queue)
            seconds[depth] += [took] if number else []
        tick(1)
    return ByDepth(seconds)


def _claims(queue: Queue) -> float:
    took = 0.0
    for _ in range(CLAIMS_A_ROUND):
        begun = time.perf_counter()
        claims = claim(queue, owner="bench", limit=LIMIT).claims
        took += time.perf_counter() - begun
        assert len(claims) == LIMIT
        release(queue, [one.entry for one in claims])
    return took / (CLAIMS_A_ROUND * LIMIT)


def fill(client: DynamoDBClient, table: str, queue: Queue, depth: int, tick: Callable[[int], None]) -> None:
    """Write a queue's entries straight into the table, 25 in a request."""
    orders = Orders(queue.now, queue.runtime.entropy)
    batch: list[Item] = []
    for number in range(depth):
        batch += _items(queue, orders.next(), with_message=number < HEAD)
        if len(batch) >= 24 or number == depth - 1:
            client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}} for item in batch]})
            batch = []
            tick(min(24, depth))


def _items(queue: Queue, order: str, *, with_message: bool) -> list[Item]:
    now, spec = queue.now(), queue.spec
    place = ready_place(queue.tenant, spec, key="", message_id=order, priority=spec.priority, order=order)
    entry = Entry(place, order, "nonce", now, now + 86_400_000, spec.priority, "bench")
    items = [entry_item(entry)]
    if with_message:
        data = b'{"filler": true}'
        body = Body(data, size=len(data))
        message = Message(
            order, queue.tenant, spec.name, "nonce", place, body, "application/json", now, now, spec.message_ttl(now)
        )
        items.append(message_item(message))
    return items
