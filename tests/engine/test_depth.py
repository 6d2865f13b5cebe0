"""max_depth is a promise: never more unfinished messages, whatever dies; and what was lost comes back."""

from __future__ import annotations

import random

import pytest

from millrace.engine.claim import claim
from millrace.engine.counters import book_endings
from millrace.engine.dead_letters import list_dead_letters, purge_dead_letter, replay
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.engine.sweep import repair_depth, sweep
from millrace.model.clock import MINUTE
from millrace.model.errors import MillraceError, QueueFull
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering, Retention, RetryPolicy
from millrace.model.queue_state import GRANT_MINUTES, SKEW_MS
from tests.conftest import Bench


def entries(bench: Bench, queue: Queue) -> int:
    return sum(len(bench.store.read_lane(pk, "", "~", 1_000).items) for pk in queue.partitions())


def forget_grants(bench: Bench) -> None:
    bench.clock.forward(GRANT_MINUTES * MINUTE + SKEW_MS)


@pytest.mark.parametrize("ordering", [Ordering.UNORDERED, Ordering.FIFO])
def test_many_senders_fill_a_queue_to_its_limit_and_not_one_further(bench: Bench, ordering: Ordering) -> None:
    senders = [
        bench.queue(runtime=bench.another_process(), ordering=ordering, retention=Retention(max_depth=100))
        for _ in range(4)
    ]
    dice = random.Random(7)
    refused = 0
    for _ in range(400):
        try:
            enqueue(dice.choice(senders), Draft(b"x"))
        except QueueFull:
            refused += 1
            bench.clock.forward(150)
    assert entries(bench, senders[0]) == 100
    assert refused == 300


def test_room_made_by_endings_is_usable_at_once(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=3))
    enqueue_all(queue, [Draft(b"x")] * 3)
    held = claim(queue, owner="w", limit=2).claims
    ack(queue, [c.entry for c in held])
    bench.clock.forward(150)
    answers = enqueue_all(queue, [Draft(b"y")] * 3)
    assert [isinstance(answer, Receipt) for answer in answers] == [True, True, False]


def test_random_traffic_with_dying_processes_never_passes_the_limit_and_heals(bench: Bench) -> None:
    dice = random.Random(11)
    limit = 30
    settings = {"retention": Retention(max_depth=limit), "lease_seconds": 5, "delivery": RetryPolicy(max_attempts=2)}
    senders = [bench.queue(runtime=bench.another_process(), **settings) for _ in range(3)]
    worker = bench.queue(runtime=bench.another_process(), **settings)
    for step in range(250):
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
        assert entries(bench, worker) <= limit, f"step {step}"
        assert entries(bench, worker) <= worker.state(fresh=True).depth, f"step {step}"
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


def test_a_process_does_not_spend_credits_past_their_time(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=1_000))
    for _ in range(40):
        enqueue(queue, Draft(b"x"))
    survivor = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=1_000))
    ack(survivor, [c.entry for c in claim(survivor, owner="w", limit=50).claims])
    forget_grants(bench)
    sweep(survivor)
    enqueue(queue, Draft(b"x"))
    assert queue.state(fresh=True).depth >= entries(bench, queue) == 1


def test_an_ending_booked_after_the_sweep_mended_the_depth_does_not_count_twice(bench: Bench) -> None:
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
    book_endings(slow, epoch, 10, done=10)
    state = queue.state(fresh=True)
    assert (state.depth, state.done) == (10, 10)
    with pytest.raises(QueueFull):
        enqueue(sender, Draft(b"z"))


def test_endings_booked_while_the_sweep_counts_do_not_count_twice(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=10))
    enqueue_all(queue, [Draft(b"x")] * 10)
    forget_grants(bench)
    bench.luck = 0.0
    sweeper = bench.queue(runtime=bench.another_process(), retention=Retention(max_depth=10))
    read_lane = bench.store.read_lane

    def while_counting(pk, after, upto, limit):  # type: ignore[no-untyped-def]
        bench.store.read_lane = read_lane  # type: ignore[method-assign]
        ack(queue, [c.entry for c in claim(queue, owner="w", limit=4).claims])
        return read_lane(pk, after, upto, limit)

    bench.store.read_lane = while_counting  # type: ignore[method-assign]
    repair_depth(sweeper)
    assert queue.state(fresh=True).depth == entries(bench, queue) == 6


def test_a_flood_at_a_full_queue_does_not_ask_the_table_each_time(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=1))
    enqueue(queue, Draft(b"x"))
    asked = 0
    take_credits = bench.store.take_credits

    def counting(*arguments):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        return take_credits(*arguments)

    bench.store.take_credits = counting  # type: ignore[method-assign]
    for _ in range(50):
        with pytest.raises(QueueFull):
            enqueue(queue, Draft(b"x"))
    assert asked == 1


def test_sustained_traffic_costs_a_small_part_of_a_counter_write_a_message(bench: Bench) -> None:
    queue = bench.queue()
    asked = 0
    take_credits = bench.store.take_credits

    def counting(*arguments):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        return take_credits(*arguments)

    bench.store.take_credits = counting  # type: ignore[method-assign]
    for _ in range(300):
        enqueue(queue, Draft(b"x"))
        bench.clock.forward(5)
    assert asked <= 0.1 * 300


def test_credits_given_back_make_the_depth_exact(bench: Bench) -> None:
    queue = bench.queue()
    for _ in range(20):
        enqueue(queue, Draft(b"x"))
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == 20
    assert queue.state(fresh=True).arrived == 20


def test_duplicates_take_no_room(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, retention=Retention(max_depth=2))
    answers: list[Receipt | MillraceError] = [enqueue(queue, Draft(b"x", idempotency_key="k")) for _ in range(5)]
    assert sum(isinstance(a, Receipt) and a.duplicate for a in answers) == 4
    enqueue(queue, Draft(b"y", idempotency_key="other"))
    assert entries(bench, queue) == 2


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
    bench.clock.forward(MINUTE)
    assert stats(queue).done_per_minute == 2 / 5


def test_dead_letters_are_counted_through_replay_and_purge(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    enqueue_all(queue, [Draft(b"x")] * 3)
    for held in claim(queue, owner="w", limit=3).claims:
        nack(queue, held.entry, held.message, RunFailure("E", "x"))
    assert stats(queue).dead_letters == 3
    dead_letters = list_dead_letters(queue).items
    replay(queue, dead_letters[0], job="j1")
    purge_dead_letter(queue, dead_letters[1].sk)
    assert stats(queue).dead_letters == 2
    bench.clock.forward(queue.spec.retention.dead_letter_seconds * 1_000 + 86_400_000)
    assert stats(queue).dead_letters == 0
    assert list_dead_letters(queue).items == ()
    (day,) = queue.state(fresh=True).dead_days
    bench.clock.forward(2 * 86_400_000)
    enqueue(queue, Draft(b"x"))
    ack(queue, [c.entry for c in claim(queue, owner="w", limit=9).claims])
    assert day not in queue.state(fresh=True).dead_days


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
