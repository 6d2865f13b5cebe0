"""Claims: one at a time, fenced, taken over when their worker is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import ack, release, snooze
from millrace.engine.operate import pause, resume
from millrace.engine.status import MessageStatus, status
from millrace.engine.sweep import sweep
from millrace.model.errors import InvalidField
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Ordering, RetryPolicy
from tests.conftest import Bench
from tests.engine.steps import only, put_one, raising


def test_a_claimed_message_is_invisible_until_its_claim_runs_out(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5)
    message_id = put_one(queue)
    held = only(claim(queue, owner="a"))
    assert (held.attempt, held.entry.version, held.entry.owner) == (1, 1, "a")
    assert status(queue, message_id).status is MessageStatus.IN_FLIGHT
    waiting = claim(queue, owner="b")
    assert (waiting.claims, waiting.next_at) == ([], held.entry.until)
    bench.clock.forward(5_000)
    again = only(claim(queue, owner="b"))
    assert (again.attempt, again.entry.version, again.entry.deliveries) == (2, 2, 2)
    assert again.lost is not None
    assert again.lost.owner == "a"


def test_a_done_message_is_never_claimed_again(bench: Bench) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    ack(queue, [only(claim(queue, owner="w")).entry], [b"r"])
    bench.clock.forward(3_600_000)
    sweep(queue)
    assert claim(queue, owner="w").claims == []
    found = status(queue, message_id)
    assert found.status is MessageStatus.DONE
    assert found.result is not None
    assert found.result.snapshot == b"r"


def test_lost_workers_use_up_attempts_releases_and_snoozes_do_not(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5, delivery=RetryPolicy(max_attempts=2))
    message_id = put_one(queue)
    for _ in range(4):
        assert release(queue, [only(claim(queue, owner="polite")).entry]) == [None]
    snooze(queue, only(claim(queue, owner="sleepy")).entry, bench.clock() + 1_000)
    bench.clock.forward(1_000)
    for attempt in (1, 2):
        assert only(claim(queue, owner="doomed")).attempt == attempt
        bench.clock.forward(5_000)
    assert claim(queue, owner="next").claims == []
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.attempts, dead_letter.error_type) == (
        DeadLetterReason.EXHAUSTED,
        2,
        "WorkerLost",
    )
    assert dead_letter.deliveries == 8
    assert status(queue, message_id).status is MessageStatus.DEAD


def test_a_paused_queue_hands_out_nothing_and_still_accepts(bench: Bench) -> None:
    queue = bench.queue()
    pause(queue, "ops")
    put_one(queue)
    assert claim(queue, owner="w").claims == []
    state = queue.state(fresh=True)
    assert (state.paused_by, state.depth) == ("ops", 1)
    resume(queue, "ops")
    assert only(claim(queue, owner="w"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"owner": "", "limit": 1}, "owner"),
        ({"owner": "o" * 65}, "owner"),
        ({"owner": "w", "limit": 0}, "limit"),
        ({"owner": "w", "limit": 101}, "limit"),
        ({"owner": "w", "lease_ms": 0}, "lease_ms"),
    ],
)
def test_a_claim_out_of_range_is_refused(bench: Bench, settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        claim(bench.queue(), **settings)  # type: ignore[arg-type]


def test_an_entry_without_its_message_is_left_alone_then_removed(bench: Bench) -> None:
    queue = bench.queue()
    put_messages = bench.store.put_messages
    bench.store.put_messages = raising(ConnectionError("killed"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        enqueue(queue, Draft(b"x", idempotency_key="k"))
    bench.store.put_messages = put_messages  # type: ignore[method-assign]
    waiting = claim(queue, owner="w")
    assert waiting.claims == []
    assert waiting.next_at is not None
    bench.clock.forward(ORPHAN_GRACE_MS - 1)
    assert claim(queue, owner="w").claims == []
    (pk,) = queue.partitions()
    assert len(bench.store.read_lane(pk, "", "~", 10).items) == 1
    bench.clock.forward(1)
    assert claim(queue, owner="w").claims == []
    assert bench.store.read_lane(pk, "", "~", 10).items == ()
    assert list_dead_letters(queue).items == ()
    assert not enqueue(queue, Draft(b"x", idempotency_key="k")).duplicate


def test_an_orphan_of_a_duplicate_never_runs(bench: Bench) -> None:
    """A sender of a repeated key that dies before taking its entry back leaves one with another nonce."""
    queue = bench.queue()
    enqueue(queue, Draft(b"one", idempotency_key="k"))
    bench.store.drop_entries = raising(ConnectionError("killed"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        enqueue(queue, Draft(b"two", idempotency_key="k"))
    del bench.store.drop_entries
    bench.clock.forward(ORPHAN_GRACE_MS)
    claims = claim(queue, owner="w", limit=10).claims
    assert [body_of(queue, c) for c in claims] == [b"one"]


def test_claims_of_one_process_do_not_depend_on_its_memory(bench: Bench) -> None:
    """Everything a later call needs is in the claim: another process can finish it."""
    queue = bench.queue()
    put_one(queue)
    held = only(claim(queue, owner="w"))
    other = bench.queue(runtime=bench.another_process())
    assert ack(other, [replace(held.entry)]) == [None]


@pytest.mark.parametrize("ordering", list(Ordering))
def test_nothing_is_left_after_everything_is_done(bench: Bench, ordering: Ordering) -> None:
    queue = bench.queue(ordering=ordering, shards=1 if ordering is Ordering.FIFO else 3)
    enqueue_all(queue, [Draft(b"%d" % n, key=f"k{n % 7}") for n in range(40)])
    seen: list[bytes] = []
    while claims := claim(queue, owner="w", limit=10).claims:
        seen += [body_of(queue, c) for c in claims]
        assert ack(queue, [c.entry for c in claims]) == [None] * len(claims)
    assert sorted(seen) == sorted(b"%d" % n for n in range(40))
    for pk in queue.partitions():
        assert bench.store.read_lane(pk, "", "~", 10).items == ()
