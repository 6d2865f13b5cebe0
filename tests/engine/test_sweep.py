"""The sweep: what is too old becomes a dead letter, and lost credits come back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.counters import book_endings
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.operate import pause
from millrace.engine.queue import Queue
from millrace.engine.sweep import IDLE_MS, is_empty, repair_depth, retire, sweep
from millrace.model.clock import MINUTE
from millrace.model.errors import QueueFull
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Retention, RetryPolicy
from millrace.model.queue_state import COMMIT_WITHIN_MS, GRANT_MINUTES, SKEW_MS
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench


def test_a_message_older_than_retention_becomes_a_dead_letter_even_while_paused(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_age_seconds=60))
    enqueue_all(queue, [Draft(b"%d" % n, priority=n) for n in range(40)])
    pause(queue, "ops")
    bench.clock.forward(59_999)
    assert sweep(queue).buried == 0
    bench.clock.forward(1)
    while sweep(queue).buried:
        pass
    dead_letters = list_dead_letters(queue, limit=100).items
    assert {dead_letter.reason for dead_letter in dead_letters} == {DeadLetterReason.EXPIRED}
    assert len(dead_letters) == 40
    assert queue.state(fresh=True).depth == 0


def entries(bench: Bench, queue: Queue) -> int:
    return sum(len(bench.store.read_lane(pk, "", "~", 1_000).items) for pk in queue.partitions())


def forget_grants(bench: Bench) -> None:
    bench.clock.forward(GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS)


def test_random_traffic_with_dying_processes_never_passes_the_limit_and_heals(bench: Bench) -> None:
    dice = random.Random(11)
    limit = 30
    settings: dict[str, Any] = {
        "retention": Retention(max_depth=limit),
        "lease_seconds": 5,
        "delivery": RetryPolicy(max_attempts=2),
    }
    senders = [bench.queue(runtime=bench.another_process(), **settings) for _ in range(3)]
    worker = bench.queue(runtime=bench.another_process(), **settings)
    for step in range(250 if isinstance(bench.store, MemoryStore) else 100):
        bench.clock.forward(dice.randrange(0, 700))
        match dice.randrange(8):
            case 0 | 1 | 2 | 3:
                enqueue_all(dice.choice(senders), [Draft(b"x")] * dice.randrange(1, 6))
            case 4 | 5:
                claims = claim(worker, owner="w", limit=dice.randrange(1, 8)).claims
                ack(worker, [c.entry for c in claims if dice.random() < 0.7])
            case 6:
                senders[dice.randrange(3)] = bench.queue(runtime=bench.another_process(), **settings)
            case 7:
                sweep(worker)
        present = entries(bench, worker)
        assert present <= limit, f"step {step}"
        assert present <= worker.state(fresh=True).depth, f"step {step}"
    while entries(bench, worker):
        bench.clock.forward(40_000)
        ack(worker, [c.entry for c in claim(worker, owner="w", limit=50).claims])
    forget_grants(bench)
    sweep(worker)
    assert worker.state(fresh=True).depth == 0
    assert all(isinstance(a, Receipt) for a in enqueue_all(senders[0], [Draft(b"z")] * limit))


def test_credits_of_a_dead_process_come_back_with_the_sweep(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=1_000))
    for _ in range(40):
        enqueue(queue, Draft(b"x"))
    survivor = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=1_000))
    while claims := claim(survivor, owner="w", limit=50).claims:
        ack(survivor, [c.entry for c in claims])
    assert survivor.state(fresh=True).depth > 0
    assert sweep(survivor).repaired == 0, "they may still be spent"
    forget_grants(bench)
    assert sweep(survivor).repaired > 0
    assert survivor.state(fresh=True).depth == 0
    assert sweep(survivor).repaired == 0


def test_an_ending_booked_after_the_sweep_repaired_the_depth_does_not_count_twice(bench: Bench) -> None:
    """A worker deletes entries, stalls, and books them only after the sweep has found their credits missing."""
    queue = bench.queue(retention=Retention(max_depth=10))
    enqueue_all(queue, [Draft(b"x")] * 10)
    slow = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=10))
    epoch = slow.state().epoch
    held = claim(slow, owner="slow", limit=10).claims
    bench.store.end_entries([c.entry for c in held])
    forget_grants(bench)
    assert sweep(bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=10))).repaired == 10
    bench.clock.forward(200)
    sender = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=10))
    enqueue_all(sender, [Draft(b"y")] * 10)
    book_endings(slow, epoch, 10, done=[c.entry.id for c in held])
    state = queue.state(fresh=True)
    assert (state.depth, state.done) == (10, 10)
    with pytest.raises(QueueFull):
        enqueue(sender, Draft(b"z"))


def test_endings_booked_while_the_sweep_counts_do_not_count_twice(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=10))
    enqueue_all(queue, [Draft(b"x")] * 10)
    forget_grants(bench)
    bench.chance = 0.0
    sweeper = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=10))
    read_lane = bench.store.read_lane

    def while_counting(pk, after, upto, limit):  # type: ignore[no-untyped-def]
        bench.store.read_lane = read_lane  # type: ignore[method-assign]
        ack(queue, [c.entry for c in claim(queue, owner="w", limit=4).claims])
        return read_lane(pk, after, upto, limit)

    bench.store.read_lane = while_counting  # type: ignore[method-assign]
    repair_depth(sweeper)
    assert queue.state(fresh=True).depth == entries(bench, queue) == 6


def used_and_empty(bench: Bench) -> Queue:
    queue = bench.queue()
    enqueue(queue, Draft(b"x"))
    ack(queue, [held.entry for held in claim(queue, owner="w").claims])
    assert is_empty(queue)
    return queue


def test_a_queue_that_nobody_has_used_for_a_day_leaves_the_list_and_comes_back(bench: Bench) -> None:
    queue = used_and_empty(bench)
    bench.clock.forward(IDLE_MS)
    assert retire(queue, queue.state(fresh=True)) is False
    bench.clock.forward(1)
    assert retire(queue, queue.state(fresh=True)) is True
    assert queue.state(fresh=True).listed is False
    enqueue(queue, Draft(b"x"))
    assert queue.state(fresh=True).listed is True


def test_a_queue_with_dead_letters_stays_on_the_list_for_its_gauge(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_age_seconds=60, dead_letter_seconds=7 * 86_400))
    enqueue(queue, Draft(b"x"))
    bench.clock.forward(60_000)
    assert sweep(queue).buried == 1
    bench.clock.forward(IDLE_MS + 1)
    assert retire(queue, queue.state(fresh=True)) is False
    bench.clock.forward(8 * IDLE_MS)
    assert retire(queue, queue.state(fresh=True)) is True


def test_a_queue_sent_to_since_it_was_seen_stays_on_the_list(bench: Bench) -> None:
    queue = used_and_empty(bench)
    bench.clock.forward(IDLE_MS + 1)
    seen = queue.state(fresh=True)
    enqueue(queue, Draft(b"x"))
    ack(queue, [held.entry for held in claim(queue, owner="w").claims])
    assert retire(queue, seen) is False
