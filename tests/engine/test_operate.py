"""What an operator does to a queue: break a claim, purge."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, extend, nack
from millrace.engine.operate import break_claim, cancel_message, purge_page, reset_breaker
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import MessageHeld, NotFound, StaleClaim
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Idempotency, Jitter, RetryPolicy
from millrace.model.queue_state import BreakerState
from millrace.stores.interface import WriteResult
from tests.conftest import Bench
from tests.engine.steps import only, put_one


def test_an_operator_can_break_a_claim_without_charging_an_attempt(bench: Bench) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    held = only(claim(queue, owner="stuck"))
    break_claim(queue, message_id)
    (error,) = ack(queue, [held.entry])
    assert isinstance(error, StaleClaim)
    again = only(claim(queue, owner="w"))
    assert (again.attempt, again.entry.version) == (1, 2)
    ack(queue, [again.entry])
    with pytest.raises(NotFound, match="claim on message"):
        break_claim(queue, message_id)


@pytest.mark.parametrize("cache_result", [True, False])
def test_an_ack_with_a_broken_claim_is_refused_once_another_is_done(bench: Bench, cache_result: bool) -> None:
    """Before the other's result is written, too, and where no result is kept."""
    queue = bench.queue(idempotency=Idempotency(cache_result=cache_result))
    message_id = put_one(queue)
    broken = only(claim(queue, owner="stuck"))
    break_claim(queue, message_id)
    newer = only(claim(queue, owner="w"))
    queue.store.end_entries([newer.entry])
    (error,) = ack(queue, [broken.entry])
    assert isinstance(error, StaleClaim)


def test_breaking_a_claim_keeps_the_history_of_failed_runs(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(jitter=Jitter.NONE, initial_backoff_ms=1_000))
    message_id = put_one(queue)
    held = only(claim(queue, owner="a"))
    nack(queue, held.entry, held.message, RunFailure("E", "first"))
    bench.clock.forward(1_000)
    claim(queue, owner="stuck")
    break_claim(queue, message_id)
    assert [run.error for run in status(queue, message_id).history] == ["first"]


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue(delivery=RetryPolicy(max_attempts=1), lease_seconds=600)


def test_purging_a_queue_leaves_what_is_held_and_a_trace_of_the_rest(bench: Bench, queue: Queue) -> None:
    ids = [r.message_id for r in enqueue_all(queue, [Draft(b"x")] * 60)]  # type: ignore[union-attr]
    enqueue(queue, Draft(b"later", not_before=bench.clock() + 1_000))
    held = claim(queue, owner="busy", limit=3).claims
    position, removed, left = None, 0, 0
    while True:
        page = purge_page(queue, position)
        removed, left, position = removed + page.removed, left + page.held, page.next
        if position is None:
            break
    assert (removed, left) == (58, 3)
    statuses = [status(queue, message_id).status for message_id in ids]
    assert (statuses.count(MessageStatus.PURGED), statuses.count(MessageStatus.IN_FLIGHT)) == (57, 3)
    assert ack(queue, [c.entry for c in held]) == [None] * 3
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == 0


def test_an_operator_closes_one_breaker_or_all(bench: Bench) -> None:
    queue = bench.queue()
    for target in ("http:a", "http:b", "http:c"):
        queue.store.set_breaker(queue.state(fresh=True), target, BreakerState(bench.clock() + 5_000))
    assert reset_breaker(queue, "http:b") == ("http:b",)
    assert sorted(queue.state().breakers) == ["http:a", "http:c"]
    with pytest.raises(NotFound, match="http:b"):
        reset_breaker(queue, "http:b")
    assert reset_breaker(queue) == ("http:a", "http:c")
    assert queue.state().breakers == {}
    assert reset_breaker(queue) == ()


def test_a_running_message_is_cancelled_and_its_holder_changes_nothing_more(bench: Bench, queue: Queue) -> None:
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    cancel_message(queue, message_id, running=True)
    assert status(queue, message_id).status is MessageStatus.PURGED
    assert queue.state(fresh=True).depth == 0
    (extended,) = extend(queue, [held.entry])
    assert isinstance(extended, StaleClaim), "its heartbeat tells the holder"
    assert isinstance(ack(queue, [held.entry])[0], StaleClaim)
    with pytest.raises(StaleClaim):
        nack(queue, held.entry, held.message, RunFailure("ValueError", "no"))
    bench.clock.forward(60_000)
    assert claim(queue, owner="w").claims == []


def test_a_cancel_meets_a_message_that_its_worker_finishes_meanwhile(bench: Bench, queue: Queue) -> None:
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    erase_message = bench.store.erase_message

    def slower(*given: Any) -> WriteResult[Entry]:
        bench.store.erase_message = erase_message  # type: ignore[method-assign]
        assert ack(queue, [held.entry]) == [None]
        return erase_message(*given)

    bench.store.erase_message = slower  # type: ignore[assignment,method-assign]
    with pytest.raises(NotFound):
        cancel_message(queue, message_id, running=True)
    assert status(queue, message_id).status is MessageStatus.DONE


@pytest.mark.parametrize("delay", [0, 1_000])
def test_a_message_that_nobody_holds_is_cancelled(bench: Bench, queue: Queue, delay: int) -> None:
    message_id = enqueue(queue, Draft(b"x", not_before=bench.clock() + delay)).message_id
    cancel_message(queue, message_id)
    assert status(queue, message_id).status is MessageStatus.PURGED
    bench.clock.forward(delay)
    assert claim(queue, owner="w").claims == []
    with pytest.raises(NotFound, match="queued message"):
        cancel_message(queue, message_id)


def test_a_cancel_that_meets_a_worker_changes_nothing(bench: Bench, queue: Queue) -> None:
    """Seen held; and claimed between the look and the write."""
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    with pytest.raises(MessageHeld):
        cancel_message(queue, message_id)
    assert ack(queue, [held.entry]) == [None]
    message_id = put_one(queue)
    erase_message, claims = bench.store.erase_message, []

    def slower(*given: Any) -> WriteResult[Entry]:
        bench.store.erase_message = erase_message  # type: ignore[method-assign]
        claims.append(only(claim(queue, owner="w")))
        return erase_message(*given)

    bench.store.erase_message = slower  # type: ignore[assignment,method-assign]
    with pytest.raises(MessageHeld):
        cancel_message(queue, message_id)
    assert ack(queue, [claims[0].entry]) == [None]
    assert status(queue, message_id).status is MessageStatus.DONE
