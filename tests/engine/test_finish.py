"""Ack, nack, reject, release, extend: each fenced by its claim's token."""

from __future__ import annotations

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RetryAt, RunFailure, ack, end, extend, follow_up, nack, reject, release, snooze
from millrace.engine.status import MessageStatus, status
from millrace.engine.sweep import sweep
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.clock import DAY
from millrace.model.errors import InvalidField, StaleClaim
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Idempotency, Ordering, Retention
from tests.conftest import Bench
from tests.engine.steps import BROKEN, EXACT, only, put_one


@pytest.mark.parametrize("count", [1, 3], ids=["single", "batch"])
def test_every_write_with_a_stale_claim_changes_nothing_and_names_the_version(bench: Bench, count: int) -> None:
    queue = bench.queue(lease_seconds=5)
    enqueue_all(queue, [Draft(b"x")] * count)
    old = claim(queue, owner="slow", limit=count).claims
    bench.clock.forward(5_000)
    new = claim(queue, owner="quick", limit=count).claims
    entries = [c.entry for c in old]
    stood = [bench.store.get_entry(c.entry.place) for c in new]
    refused = [*ack(queue, entries), *release(queue, entries), *extend(queue, entries)]
    assert [(type(error), error.current) for error in refused] == [(StaleClaim, 2)] * (3 * count)  # type: ignore[union-attr]
    for finish in (
        lambda: nack(queue, old[0].entry, old[0].message, BROKEN),
        lambda: reject(queue, old[0].entry, old[0].message, BROKEN),
        lambda: snooze(queue, old[0].entry, bench.clock() + 1_000),
        lambda: write_workflow_state(queue, old[0].entry, b"{}", 0),
        lambda: read_workflow_state(queue, old[0].entry),
    ):
        with pytest.raises(StaleClaim) as caught:
            finish()
        assert caught.value.current == 2
    assert [bench.store.get_entry(c.entry.place) for c in new] == stood
    assert ack(queue, [c.entry for c in new]) == [None] * count


def test_repeating_an_ack_succeeds_again_and_another_claims_ack_does_not(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5)
    put_one(queue)
    slow = only(claim(queue, owner="slow"))
    bench.clock.forward(5_000)
    quick = only(claim(queue, owner="quick"))
    assert ack(queue, [quick.entry], [b"1"]) == [None]
    assert ack(queue, [quick.entry], [b"1"]) == [None]
    (error,) = ack(queue, [slow.entry], [b"0"])
    assert isinstance(error, StaleClaim)
    assert (error.current, queue.state(fresh=True).done) == (2, 1)


def test_without_cached_results_a_done_message_is_done_all_the_same(bench: Bench) -> None:
    queue = bench.queue(idempotency=Idempotency(cache_result=False))
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    assert ack(queue, [held.entry], [b"r"]) == ack(queue, [held.entry], [b"r"]) == [None]
    assert (status(queue, message_id).status, status(queue, message_id).result) == (MessageStatus.DONE, None)


def test_five_attempts_follow_the_exact_timetable_then_comes_the_dead_letter(bench: Bench) -> None:
    queue = bench.queue(delivery=EXACT)
    message_id = put_one(queue)
    waits = []
    for attempt in range(1, 6):
        held = only(claim(queue, owner=f"worker-{attempt}"))
        assert held.attempt == attempt
        decision = nack(queue, held.entry, held.message, RunFailure("ValueError", f"failure {attempt}"))
        if isinstance(decision, RetryAt):
            assert status(queue, message_id).status is MessageStatus.SCHEDULED
            waits.append(decision.due - bench.clock())
            bench.clock.now = decision.due - 1
            assert claim(queue, owner="early").claims == []
            bench.clock.forward(1)
    assert waits == [1_000, 2_000, 4_000, 8_000]
    found = status(queue, message_id)
    assert (found.status, claim(queue, owner="w").claims) == (MessageStatus.DEAD, [])
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.attempts, dead_letter.error) == (DeadLetterReason.EXHAUSTED, 5, "failure 5")
    assert [(run.number, run.owner, run.error) for run in dead_letter.history] == [
        (n, f"worker-{n}", f"failure {n}") for n in range(1, 6)
    ]


def test_a_handler_may_name_its_own_delay(bench: Bench) -> None:
    queue = bench.queue()
    put_one(queue)
    held = only(claim(queue, owner="w"))
    assert nack(queue, held.entry, held.message, BROKEN, delay_ms=12_345) == RetryAt(bench.clock() + 12_345)
    bench.clock.forward(12_345)
    held = only(claim(queue, owner="w"))
    with pytest.raises(InvalidField, match="negative"):
        nack(queue, held.entry, held.message, BROKEN, delay_ms=-1)
    assert ack(queue, [held.entry]) == [None]


def test_extending_keeps_a_long_job_through_many_leases(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5)
    put_one(queue)
    entry = only(claim(queue, owner="long")).entry
    for _ in range(36):
        bench.clock.forward(1_667)
        (longer,) = extend(queue, [entry])
        assert not isinstance(longer, StaleClaim)
        assert claim(queue, owner="other").claims == []
        entry = longer  # type: ignore[assignment]
    assert ack(queue, [entry]) == [None]


def test_a_rejected_message_goes_straight_to_the_dead_letters(bench: Bench) -> None:
    queue = bench.queue()
    put_one(queue)
    held = only(claim(queue, owner="w"))
    reject(queue, held.entry, held.message, RunFailure("Reject", "no such account"))
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.error, dead_letter.attempts) == (
        DeadLetterReason.REJECTED,
        "no such account",
        1,
    )
    assert queue.state(fresh=True).depth == 0


@pytest.mark.parametrize("ordering", Ordering)
def test_a_message_waits_no_longer_than_it_is_kept(bench: Bench, ordering: Ordering) -> None:
    """Put off beyond retention it would be met by nobody, and TTL could take its message before it was due."""
    queue = bench.queue(ordering=ordering, retention=Retention(max_age_seconds=60))

    def snoozed(held: Claim) -> None:
        snooze(queue, held.entry, bench.clock() + 90 * DAY)

    def nacked(held: Claim) -> None:
        nack(queue, held.entry, held.message, RunFailure("E", "e"), delay_ms=90 * DAY)

    for give_back in (snoozed, nacked):
        message_id = enqueue(queue, Draft(b"late", key="k")).message_id
        (held,) = claim(queue, owner="w").claims
        give_back(held)
        bench.clock.forward(59_999)
        assert sweep(queue).buried == 0
        bench.clock.forward(1)
        assert sweep(queue).buried == 1
        assert status(queue, message_id).status is MessageStatus.DEAD


# -- in two halves ----------------------------------------------------------------------------------------------


def test_a_message_is_done_with_the_first_half_and_counted_with_the_second(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    message_id = put_one(queue)
    ended = end(queue, only(claim(queue, owner="w")).entry, b"r")
    assert ended is not None
    found = status(queue, message_id)
    assert (found.status, found.result) == (MessageStatus.DONE, None)
    assert queue.state(fresh=True).depth == 1, "too high is safe"
    follow_up(queue, [ended])
    found = status(queue, message_id)
    assert found.result is not None
    assert found.result.snapshot == b"r"
    assert (queue.state(fresh=True).depth, queue.state().done) == (0, 1)


def test_the_first_half_of_a_stale_claim_changes_nothing_and_a_repeat_has_no_second_half(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5)
    put_one(queue)
    old = only(claim(queue, owner="slow")).entry
    bench.clock.forward(5_000)
    new = only(claim(queue, owner="quick")).entry
    with pytest.raises(StaleClaim):
        end(queue, old)
    assert end(queue, new) is not None
    assert end(queue, new) is None
