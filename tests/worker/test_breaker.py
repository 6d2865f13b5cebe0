"""Circuit breakers: an outage costs a few attempts, not every message's."""

from __future__ import annotations

import pytest

from millrace.engine.enqueue import enqueue_all
from millrace.engine.inspect import list_entries, stats
from millrace.engine.queue import Queue
from millrace.engine.status import status
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.worker import Context
from millrace.worker.breaker import FAILURES, FIRST_MS, MAX_MS, Breakers, probe_wait
from millrace.worker.controls import Snooze
from tests.conftest import Bench
from tests.worker.conftest import drain

TARGET = "http:https://example.com"
#: More than a worker claims ahead.
MESSAGES = 90


class Endpoint:
    """A target behind a breaker, as the plan calls it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.breakers = Breakers(queue, [TARGET])
        self.down = True
        self.calls = 0

    def __call__(self, _context: Context) -> None:
        self.calls += 1
        if not self.down:
            self.breakers.succeeded(TARGET)
            return
        until = self.breakers.failed(TARGET)
        if until is not None:
            raise Snooze(after=(until - self.queue.now()) / 1000)
        raise ConnectionError("down")

    def drain(self) -> int:
        before = self.calls
        drain(self.queue, self, concurrency=1, breakers=self.breakers)
        return self.calls - before


def entries(queue: Queue) -> list[Entry]:
    found = list_entries(queue, "ready", limit=100).items + list_entries(queue, "scheduled", limit=100).items
    return sorted(found, key=lambda entry: entry.id)


@pytest.fixture
def endpoint(bench: Bench) -> Endpoint:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=3, initial_backoff_ms=1_000, jitter=Jitter.NONE))
    enqueue_all(queue, [Draft(b"{}") for _ in range(MESSAGES)])
    return Endpoint(queue)


def test_after_some_failures_in_a_row_nothing_more_is_tried(endpoint: Endpoint) -> None:
    endpoint.drain()
    attempts = sum(entry.attempts for entry in entries(endpoint.queue))
    assert attempts == FAILURES - 1
    assert endpoint.calls < MESSAGES, "what was claimed before it opened may still run, no more"
    assert set(endpoint.queue.state(fresh=True).breakers) == {TARGET}
    assert endpoint.drain() == 0


def test_an_outage_of_an_hour_charges_no_more_attempts(bench: Bench, endpoint: Endpoint) -> None:
    for _ in range(360):
        endpoint.drain()
        bench.clock.forward(10_000)
    assert endpoint.calls < MESSAGES + 80
    assert sum(entry.attempts for entry in entries(endpoint.queue)) == FAILURES - 1
    endpoint.down = False
    for _ in range(60):
        bench.clock.forward(10_000)
        endpoint.drain()
    assert not entries(endpoint.queue)
    assert not endpoint.queue.state(fresh=True).breakers


def test_one_probe_over_all_workers(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.drain()
    other = Endpoint(bench.queue(runtime=bench.another_process(), delivery=endpoint.queue.spec.delivery))
    bench.clock.forward(FIRST_MS)
    assert endpoint.breakers.allowance().limit == 1
    assert other.breakers.allowance().limit == 0


def test_a_probe_that_succeeds_closes_the_breaker_for_everyone(bench: Bench, endpoint: Endpoint) -> None:
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


def test_a_success_in_between_keeps_it_closed(bench: Bench) -> None:
    queue = bench.queue()
    breakers = Breakers(queue, [TARGET])
    for _ in range(5):
        for _ in range(FAILURES - 1):
            assert breakers.failed(TARGET) is None
        breakers.succeeded(TARGET)
    assert not queue.state(fresh=True).breakers


def test_in_a_fifo_queue_a_failed_probe_is_charged(bench: Bench) -> None:
    """Its head is the only message to probe with: uncharged, one that can never succeed would block for good."""
    queue = bench.queue(
        ordering=Ordering.FIFO, delivery=RetryPolicy(max_attempts=3, initial_backoff_ms=1_000, jitter=Jitter.NONE)
    )
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
