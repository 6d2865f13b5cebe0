"""Circuit breakers: an outage of a target costs a few attempts, not every message's; a failing message opens none."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.inspect import list_entries, stats
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.handlers.controls import Snooze, Unavailable
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.worker import RunContext
from millrace.worker.breaker import FAILURES, FIRST_MS, MAX_MS, Breakers, probe_wait
from tests.conftest import Bench
from tests.worker.conftest import drain

TARGET = "http:https://example.com"
#: More than a worker claims ahead.
MESSAGES = 90
POLICY = RetryPolicy(max_attempts=3, initial_backoff_ms=1_000, max_backoff_ms=1_000, jitter=Jitter.NONE)


class Endpoint:
    """A target behind a breaker, called as the plan calls it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.breakers = Breakers(queue, [TARGET])
        self.down = True
        self.poison: set[str] = set()  #: bodies that always fail, though the target is up
        self.calls: Counter[str] = Counter()

    def __call__(self, context: RunContext) -> None:
        held_until = self.breakers.held_back_until(TARGET)
        if held_until is not None:
            raise Snooze(after=(held_until - self.queue.now()) / 1000)
        self.calls[context.message_id] += 1
        if self.down:
            self.breakers.failed(TARGET)
            raise Unavailable(reason="connection refused")
        self.breakers.answered(TARGET)
        if context.body.decode() in self.poison:
            raise ValueError("this message always fails")

    def drain(self) -> int:
        before = self.calls.total()
        drain(self.queue, self, concurrency=1, breakers=self.breakers)
        return self.calls.total() - before


def entries(queue: Queue) -> list[Entry]:
    found = list_entries(queue, "ready", limit=100).items + list_entries(queue, "scheduled", limit=100).items
    return sorted(found, key=lambda entry: entry.id)


@pytest.fixture
def endpoint(bench: Bench) -> Endpoint:
    queue = bench.queue(delivery=POLICY)
    enqueue_all(queue, [Draft(b"{}") for _ in range(MESSAGES)])
    return Endpoint(queue)


def test_after_some_outages_in_a_row_nothing_more_is_called(endpoint: Endpoint) -> None:
    endpoint.drain()
    assert endpoint.calls.total() == FAILURES, "what was claimed ahead is put back without a call"
    assert sum(entry.attempts for entry in entries(endpoint.queue)) == FAILURES
    assert set(endpoint.queue.state(fresh=True).breakers) == {TARGET}
    assert endpoint.drain() == 0


def test_an_outage_of_an_hour_costs_its_probes_and_no_message_dies(bench: Bench, endpoint: Endpoint) -> None:
    for _ in range(360):
        endpoint.drain()
        bench.clock.forward(10_000)
    probes = endpoint.calls.total() - FAILURES
    assert 50 <= probes <= 70, "one a minute in the end"
    assert sum(entry.attempts for entry in entries(endpoint.queue)) == endpoint.calls.total(), "each call is charged"
    assert max(endpoint.calls.values()) == 1, "probes go to the message that was tried least"
    assert len(entries(endpoint.queue)) == MESSAGES
    endpoint.down = False
    for _ in range(30):
        bench.clock.forward(10_000)
        endpoint.drain()
    assert not entries(endpoint.queue)
    assert not endpoint.queue.state(fresh=True).breakers


@pytest.mark.parametrize("ordering", [Ordering.UNORDERED, Ordering.PER_KEY])
def test_messages_that_always_fail_open_nothing_and_the_good_one_beside_them_runs(
    bench: Bench, ordering: Ordering
) -> None:
    queue = bench.queue(ordering=ordering, delivery=POLICY)
    endpoint = Endpoint(queue)
    endpoint.down = False
    endpoint.poison = {"poison"}
    bad = [enqueue(queue, Draft(b"poison", key=f"customer-{n}")) for n in range(2 * FAILURES)]
    good = enqueue(queue, Draft(b"good", key="another"))
    endpoint.drain()
    assert status(queue, good.message_id).status is MessageStatus.DONE, "at once, beside twenty that fail"
    assert not queue.state(fresh=True).breakers
    for _ in range(10):
        bench.clock.forward(60_000)
        endpoint.drain()
    assert {status(queue, one.message_id).status for one in bad} == {MessageStatus.DEAD}
    assert {endpoint.calls[one.message_id] for one in bad} == {POLICY.max_attempts}


def test_max_attempts_holds_whatever_the_breaker_does(bench: Bench) -> None:
    """Few messages and a long outage: each is probed until its attempts are used up, and never once more."""
    queue = bench.queue(delivery=POLICY)
    receipts = [enqueue(queue, Draft(b"{}")) for _ in range(4)]
    endpoint = Endpoint(queue)
    for _ in range(200):
        endpoint.drain()
        bench.clock.forward(30_000)
    assert {status(queue, one.message_id).status for one in receipts} == {MessageStatus.DEAD}
    assert set(endpoint.calls.values()) == {POLICY.max_attempts}


def test_one_probe_over_all_workers(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    other = Endpoint(bench.queue(runtime=bench.another_process(), delivery=POLICY))
    bench.clock.forward(FIRST_MS)
    assert endpoint.breakers.allowance().limit == 1
    assert other.breakers.allowance().limit == 0
    assert endpoint.breakers.held_back_until(TARGET) is None, "the probe's own call"
    assert endpoint.breakers.held_back_until(TARGET) is not None, "and no other"
    assert other.breakers.held_back_until(TARGET) is not None


def test_a_probe_that_is_answered_closes_the_breaker_for_everyone(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    endpoint.down = False
    bench.clock.forward(FIRST_MS)
    assert endpoint.drain() == MESSAGES
    other = bench.queue(runtime=bench.another_process())
    assert not other.state().breakers


def test_probes_come_less_and_less_often() -> None:
    waits = [probe_wait(level) for level in range(8)]
    assert waits == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000, 60_000]
    assert max(waits) == MAX_MS


def test_an_answer_in_between_keeps_it_closed(bench: Bench) -> None:
    queue = bench.queue()
    breakers = Breakers(queue, [TARGET])
    for _ in range(5):
        for _ in range(FAILURES - 1):
            breakers.failed(TARGET)
        breakers.answered(TARGET)
    assert not queue.state(fresh=True).breakers


def test_one_target_of_several_holds_back_itself_alone(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    both = Breakers(endpoint.queue, [TARGET, "command:Other.Thing"])
    assert both.allowance().limit > 1
    assert both.held_back_until(TARGET) is not None
    assert both.held_back_until("command:Other.Thing") is None


def test_in_a_fifo_queue_the_head_is_probed_until_its_attempts_are_used_up(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, delivery=POLICY)
    receipts = enqueue_all(queue, [Draft(b"{}") for _ in range(6)])
    endpoint = Endpoint(queue)
    for _ in range(60):
        endpoint.drain()
        bench.clock.forward(60_000)
    assert all(status(queue, receipt.message_id).dead_letter for receipt in receipts)  # type: ignore[union-attr]


def test_a_breaker_of_a_target_that_is_no_longer_defined_holds_nothing(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    assert Breakers(endpoint.queue, ["command:Other.Thing"]).allowance().limit > 1


def test_an_open_breaker_shows_in_the_statistics(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    assert stats(endpoint.queue).open_targets == {TARGET: bench.clock() + FIRST_MS}
