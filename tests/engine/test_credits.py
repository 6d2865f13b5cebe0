"""Admission by credits: never more than max_depth unfinished messages, at little cost."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from millrace.engine.claim import claim
from millrace.engine.credits import Credits
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.engine.sweep import sweep
from millrace.model.clock import MINUTE
from millrace.model.errors import MillraceError, QueueFull, StoreUnavailable
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering, Retention
from millrace.model.queue_state import COMMIT_WITHIN_MS, GRANT_MINUTES, SKEW_MS, CreditRequest, QueueState
from millrace.stores.interface import Full
from tests.conftest import Bench


def entries(bench: Bench, queue: Queue) -> int:
    return sum(len(bench.store.read_lane(pk, "", "~", 1_000).items) for pk in queue.partitions())


def forget_grants(bench: Bench) -> None:
    bench.clock.forward(GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS)


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


def test_a_credit_that_comes_back_ends_when_it_would_have_ended(bench: Bench) -> None:
    """Else the sweep could count it as lost while it is still spent."""
    queue = bench.queue()
    cache, of = queue.runtime.credits, (queue.tenant, queue.spec)
    old = cache.admit(*of, 1)
    bench.clock.forward(GRANT_MINUTES * MINUTE - 1)
    newer = cache.admit(*of, 1)
    cache.refund(*of, old, 1)
    again = cache.admit(*of, 1)
    assert old.usable_until == again.usable_until < newer.usable_until
    bench.clock.forward(1)
    cache.refund(*of, old, 1)
    before = queue.state(fresh=True).depth
    cache.admit(*of, 1)
    assert queue.state(fresh=True).depth > before, "what came back too late is not spent"


def test_no_queue_waits_for_the_table_on_behalf_of_another(memory_bench: Bench) -> None:
    """One queue's counter does not answer: messages of another are admitted meanwhile."""
    slow, quick = memory_bench.queue("Slow"), memory_bench.queue("Quick")
    take_credits = memory_bench.store.take_credits
    asked, answered = threading.Event(), threading.Event()

    def silent(tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        if queue == "Slow":
            asked.set()
            assert answered.wait(30)
        return take_credits(tenant, queue, take)

    memory_bench.store.take_credits = silent  # type: ignore[method-assign]
    waiting = threading.Thread(target=enqueue, args=(slow, Draft(b"x")))
    waiting.start()
    assert asked.wait(30)
    admitted = threading.Thread(target=enqueue, args=(quick, Draft(b"x")), daemon=True)
    admitted.start()
    admitted.join(30)
    assert not admitted.is_alive()
    answered.set()
    waiting.join()


def test_a_queue_is_listed_before_the_first_credit_is_spent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = bench.queue()
    register, down = bench.store.register, True

    def silent(tenant: str, name: str) -> None:
        if down:
            raise StoreUnavailable("no answer")
        register(tenant, name)

    monkeypatch.setattr(bench.store, "register", silent)
    with pytest.raises(StoreUnavailable):
        enqueue(queue, Draft(b"x"))
    assert entries(bench, queue) == 0
    down = False
    enqueue(queue, Draft(b"x"))
    assert queue.state(fresh=True).listed
    assert entries(bench, queue) == 1


def test_blocks_grow_with_what_all_processes_take_together(memory_bench: Bench) -> None:
    """400 processes with 50 messages a second each: a counter that would be written 20,000 times a second."""
    writes: list[int] = []
    take_credits = memory_bench.store.take_credits

    def counting(tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        writes.append(memory_bench.clock())
        return take_credits(tenant, queue, take)

    memory_bench.store.take_credits = counting  # type: ignore[method-assign]
    processes = [memory_bench.another_process().credits for _ in range(400)]
    spec = memory_bench.queue().spec
    began = memory_bench.clock()
    for _ in range(200):  # four seconds
        for process in processes:
            assert process.admit(memory_bench.tenant, spec, 1).count == 1
        memory_bench.clock.forward(20)
    later = [at for at in writes if at >= began + 2_000]
    assert len(later) <= 2 * 50
    assert len(writes) < 0.04 * 200 * 400


def test_processes_that_began_together_do_not_come_back_together(memory_bench: Bench) -> None:
    """100 processes in step, with 200 messages a second each."""
    seconds: Counter[int] = Counter()
    take_credits, began = memory_bench.store.take_credits, memory_bench.clock()
    rng = random.Random(7)

    def counting(tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        seconds[(memory_bench.clock() - began) // 1_000] += 1
        return take_credits(tenant, queue, take)

    memory_bench.store.take_credits = counting  # type: ignore[method-assign]
    processes = [Credits(memory_bench.store, memory_bench.clock, rng.random) for _ in range(100)]
    spec = memory_bench.queue(retention=Retention(max_depth=1_000_000)).spec
    for _ in range(60):  # six seconds
        for process in processes:
            assert process.admit(memory_bench.tenant, spec, 20).count == 20
        memory_bench.clock.forward(100)
    assert max(count for second, count in seconds.items() if second > 0) <= 60


def test_blocks_of_a_busy_queue_leave_room_for_everybody(memory_bench: Bench) -> None:
    """Near the limit a process takes what it needs, whatever the rate was."""
    queue = memory_bench.queue(retention=Retention(max_depth=2_000))
    others = [memory_bench.another_process().credits for _ in range(20)]
    admitted = 0
    for _ in range(200):
        for process in others:
            admitted += process.admit(memory_bench.tenant, queue.spec, 1).count
        memory_bench.clock.forward(10)
    held = sum(cache.held for process in others for cache in process._caches.values())
    assert admitted + held == queue.state(fresh=True).depth <= 2_000
    assert admitted >= 1_900, "little is held back by those who do not need it"
