"""A queue's numbers, entries and claims, by bounded reads."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.inspect import list_claims, list_entries, stats
from millrace.engine.queue import Queue
from millrace.model.clock import MINUTE
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import RetryPolicy
from tests.conftest import Bench


def test_numbers_of_a_queue(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    enqueue_all(queue, [Draft(b"x", project=("billing", "search")[n % 2]) for n in range(10)])
    enqueue(queue, Draft(b"later", not_before=bench.clock() + 60_000))
    held = claim(queue, owner="w", limit=5).claims
    ack(queue, [c.entry for c in held[:2]])
    nack(queue, held[2].entry, held[2].message, RunFailure("E", "x"))
    bench.clock.forward(30_000 - 1)
    seen = stats(queue)
    assert (seen.ready, seen.scheduled, seen.in_flight, seen.dead_letters, seen.depth) == (5, 1, 2, 1, 8)
    assert (seen.oldest_age_ms, seen.exact, seen.paused) == (30_000 - 1, True, False)
    assert sum(seen.by_project.values()) == 8
    assert seen.totals["done"] == 2
    assert seen.done_per_minute == 2
    bench.clock.forward(MINUTE)
    assert stats(queue).done_per_minute == pytest.approx(1, abs=0.01)


def test_stats_of_a_deep_queue_read_a_bounded_number_of_entries(bench: Bench) -> None:
    queue = bench.queue()
    for _ in range(7):
        enqueue_all(queue, [Draft(b"x")] * 100)
    read = 0
    read_lane = bench.store.read_lane

    def counting(pk, after, upto, limit):  # type: ignore[no-untyped-def]
        nonlocal read
        page = read_lane(pk, after, upto, limit)
        read += len(page.items)
        return page

    bench.store.read_lane = counting  # type: ignore[method-assign]
    seen = stats(queue)
    assert (seen.depth, seen.exact) == (queue.state(fresh=True).depth, False)
    assert seen.ready >= 700
    assert read <= 310


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue(delivery=RetryPolicy(max_attempts=1), lease_seconds=600)


def test_entries_and_claims_are_listed_page_by_page(bench: Bench, tenant: str) -> None:
    queue = bench.queue(shards=3)
    enqueue_all(queue, [Draft(b"%d" % n) for n in range(20)])
    enqueue(queue, Draft(b"later", not_before=bench.clock() + 1_000))
    claim(queue, owner="alice", limit=3)
    claim(queue, owner="bob", limit=2)
    ready: list[Entry] = []
    cursor = None
    while True:
        page = list_entries(queue, limit=7, cursor=cursor)
        ready += page.items
        cursor = page.next
        if cursor is None:
            break
    assert len({entry.id for entry in ready}) == len(ready) == 20
    assert len(list_entries(queue, "scheduled").items) == 1
    holders = [entry.owner for entry in list_claims(queue).items]
    assert (holders.count("alice"), holders.count("bob"), len(holders)) == (3, 2, 5)
