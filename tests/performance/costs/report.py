"""Prints what Millrace costs, measured now: `python -m tests.performance.costs.report` (needs both engines)."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from infra.local.dynamodb import REGION
from infra.local.ministack import MiniStack
from millrace.engine.dictionary_review import publish
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.engine.training import make_content
from millrace.model.body import pack
from millrace.model.dictionary import Dictionary
from millrace.model.message import Body, Draft, Message
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.items import message_item
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.interface import APPLIED
from millrace.stores.memory.queue import MemoryStore
from tests.engines import own_engine
from tests.performance.costs import measures
from tests.performance.costs.corpus import corpora, github_drafts
from tests.performance.costs.measures import BATCH, SMALL, Bench, Cost, incompressible
from tests.performance.costs.meter import Meter
from tests.stores.sizes import item_bytes


@dataclass(frozen=True, slots=True)
class Weighed:
    """One payload, in bytes and write units."""

    raw: int
    packed: int
    stored: int  #: the whole message, headers and all
    reported: float  #: write units, as the engine has them


def weigh(
    bench: Bench, drafts: Sequence[Draft], dictionary: Dictionary | None = None, encrypt: str = ""
) -> list[Weighed]:
    """Store each message by itself and read its price."""
    weighed = []
    for draft in drafts:
        message = _message(bench, draft, dictionary, encrypt)
        bench.meter.reset()
        assert bench.store.put_messages([message]) == [APPLIED]
        (charge,) = bench.meter.charges
        assert charge.reported is not None
        body = message.body
        weighed.append(Weighed(body.size, len(body.data), item_bytes(message_item(message)), charge.reported))
    return weighed


def _message(bench: Bench, draft: Draft, dictionary: Dictionary | None, encrypt: str = "") -> Message:
    """As `enqueue` stores it."""
    store = MemoryStore()
    runtime = Runtime(store, bench.blobs, clock=bench.clock, keys=bench.keys)
    queue = runtime.queue(bench.tenant, QueueSpec("GitHub", encrypt=encrypt))
    if dictionary is not None:
        assert publish(queue, queue.state(), dictionary)
    enqueue(queue, draft)
    (message,) = store.messages.values()
    return message


def with_dictionary(bench: Bench, drafts: Sequence[Draft]) -> tuple[float, float]:
    """Write units to enqueue a message of one half, on average: packed alone, and with what the other half shares."""
    plain, packed = [], []
    for known, new in ((drafts[::2], drafts[1::2]), (drafts[1::2], drafts[::2])):
        dictionary = Dictionary(make_content([draft.body for draft in known]))
        plain += [1 + payload.reported for payload in weigh(bench, _again(new, "a"))]
        packed += [1 + payload.reported for payload in weigh(bench, _again(new, "p"), dictionary)]
    return statistics.mean(plain), statistics.mean(packed)


def _again(drafts: Sequence[Draft], name: str) -> list[Draft]:
    return [replace(draft, idempotency_key=f"{draft.idempotency_key}-{name}") for draft in drafts]


def dictionary_table(bench: Bench) -> str:
    """What a dictionary saves, made of one half of each corpus and tried on the other."""
    rows = [f"{'packed alone, and with a dictionary':<44}{'units to enqueue':>18}{'µs to pack':>16}"]
    for name, drafts in corpora().items():
        plain, packed = with_dictionary(bench, drafts)
        bodies = [draft.body for draft in drafts]
        dictionary = Dictionary(make_content(bodies))
        alone, against = _packing_us(bodies, pack), _packing_us(bodies, partial(pack, dictionary=dictionary))
        rows.append(f"  {name:<42}{plain:10.2f}{packed:8.2f}{alone:10.0f}{against:6.0f}")
    return "\n".join(rows)


def _packing_us(bodies: Sequence[bytes], packing: Callable[[bytes], Body]) -> float:
    """CPU of packing one body, in microseconds: the fastest of five rounds."""
    rounds = []
    for _ in range(5):
        began = time.process_time()
        for body in bodies:
            packing(body)
        rounds.append(time.process_time() - began)
    return min(rounds) / len(bodies) * 1_000_000


def encryption_table(bench: Bench) -> str:
    """What a queue's own key adds: its wrapped data key and its name, with each body, result and state."""
    rows = [f"{'plain, and under a KMS key':<44}{'units to enqueue':>18}{'bytes more':>12}"]
    for name, drafts in {f"a body of {len(SMALL)} bytes": [Draft(SMALL)], **corpora()}.items():
        plain = weigh(bench, _again(drafts, "plain"))
        under = weigh(bench, _again(drafts, "under"), encrypt=KEY)
        units = [1 + statistics.mean(one.reported for one in weighed) for weighed in (plain, under)]
        more = statistics.mean(b.stored - a.stored for a, b in zip(plain, under, strict=True))
        rows.append(f"  {name:<42}{units[0]:10.2f}{units[1]:8.2f}{more:12.0f}")
    calls = 1_000 * measures.calls_of_kms(bench, 5_000)
    rows.append(f"  calls of KMS for 1,000 messages at load, one sender and one worker, with results: {calls:.1f}")
    return "\n".join(rows)


#: Of the queues that are measured under one.
KEY = "alias/costs"


def corpus_table(weighed: Sequence[Weighed]) -> str:
    """Median, 95th percentile and largest of the corpus."""
    rows = [f"{len(weighed)} GitHub payloads       median      p95      max"]
    for name, values in (
        ("bytes as received", [payload.raw for payload in weighed]),
        ("bytes compressed", [payload.packed for payload in weighed]),
        ("bytes of the message", [payload.stored for payload in weighed]),
        ("write units to enqueue", [1 + payload.reported for payload in weighed]),
    ):
        middle, high = statistics.median(values), statistics.quantiles(values, n=20)[-1]
        rows.append(f"  {name:<24}{middle:9.0f}{high:9.0f}{max(values):9.0f}")
    mean = statistics.mean(1 + payload.reported for payload in weighed)
    plain = statistics.mean(1 + -(-(payload.stored - payload.packed + payload.raw) // 1024) for payload in weighed)
    return "\n".join([*rows, f"  mean {mean:.2f} units; {plain:.2f} if bodies were stored as received"])


def cost_table(bench: Bench, reading: Bench) -> str:
    """Each step for one message: writes on `bench`, reads on `reading` (only DynamoDB Local reports them all)."""
    plain, cached = measures.life(bench, cached=False), measures.life(bench, cached=True)
    reads = measures.life(reading, cached=True)
    rows: list[tuple[str, Cost, Cost | None]] = [
        (f"enqueue, {BATCH} at once, below 1 KB", cached["enqueue"], reads["enqueue"]),
        ("enqueue, one by one at load", measures.enqueue_at_load(reading), None),
        (f"claim, {BATCH} at once", cached["claim"], reads["claim"]),
        (f"ack, {BATCH} at once", plain["ack"], None),
        (f"ack with cached results, {BATCH} at once", cached["ack"], reads["ack"]),
        ("whole life", _sum(plain), None),
        ("whole life with a cached result", _sum(cached), _sum(reads)),
        ("whole life alone, nothing shared", _sum(measures.life_alone(bench, cached=True)), None),
        ("whole life under a KMS key, cached result", _sum(measures.life(bench, cached=True, encrypt=KEY)), None),
        ("retry, body 10 B", measures.retry(bench, b"x" * 10)[0], None),
        ("retry, body 1 MB", measures.retry(bench, incompressible(1_000_000))[0], None),
        ("extend", measures.extension(bench), None),
        ("release", measures.giving_back(bench), None),
        ("dead letter, below 1 KB", measures.burial(bench), None),
        ("a claim broken by an operator", measures.broken_claim(bench), None),
        ("an orphan taken out, its claim included", measures.orphan(bench), None),
        ("workflow state, below 1 KB", measures.document(bench), None),
        ("enqueue with one write of the caller's", measures.enqueue_with_a_write(bench), None),
        ("ack with one write of the handler's", measures.ack_with_a_write(bench), None),
        ("a step once", measures.step_once(bench, kept=False), None),
        ("repeat of an idempotency key", measures.duplicate(bench), None),
        ("repeat of a message of 30 KB", _repeat_of_a_large(reading), _repeat_of_a_large(reading)),
        ("poll of an idle queue", measures.idle_poll(reading), measures.idle_poll(reading)),
    ]
    lines = [f"{'step, for each message':<44}{'writes':>8}{'of it shared':>14}{'reads':>8}{'requests':>10}"]
    for name, cost, read in rows:
        reads_shown = f"{read.reads:8.2f}" if read else f"{'':8}"
        lines.append(f"{name:<44}{cost.writes:8.2f}{cost.accounting:14.2f}{reads_shown}{cost.requests:10.2f}")
    return "\n".join(lines)


def _repeat_of_a_large(bench: Bench) -> Cost:
    return measures.duplicate(bench, incompressible(30_000))


def _sum(costs: dict[str, Cost]) -> Cost:
    return Cost(
        sum(cost.writes for cost in costs.values()),
        sum(cost.accounting for cost in costs.values()),
        sum(cost.reads for cost in costs.values()),
        sum(cost.requests for cost in costs.values()),
    )


def _bench(url: str, *, reports_batches: bool) -> Bench:
    names = TableNames("costs-queue", "costs-dead-letters")
    create_tables(names, endpoint_url=url, region=REGION)
    client = dynamodb_client(endpoint_url=url, region=REGION)
    return Bench(client, names, Meter(client, reports_batches=reports_batches), "report")


def main() -> int:
    with own_engine() as local, MiniStack(services=("dynamodb",)) as stack:
        reading = _bench(local, reports_batches=False)
        print(cost_table(_bench(stack.url, reports_batches=True), reading))
        print()
        print(corpus_table(weigh(reading, github_drafts())))
        print()
        print(dictionary_table(reading))
        print()
        print(encryption_table(reading))
        print(f"\nWrite and read units of DynamoDB; small messages of {len(SMALL)} bytes; retries without the claim.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
