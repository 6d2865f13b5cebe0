"""Claims: one at a time, fenced, taken over when lost; ack, nack, release, extend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engine.claim import Claim, Claimed, body_of, claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, extend, nack, reject, release, snooze
from millrace.engine.operate import break_claim, pause, resume
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.engine.retry import RetryAt
from millrace.engine.status import MessageStatus, status
from millrace.engine.sweep import sweep
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.clock import DAY
from millrace.model.errors import InvalidField, NotFound, StaleClaim, StaleState
from millrace.model.message import DeadLetterReason, Draft
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, Retention, RetryPolicy
from tests.conftest import Bench

BROKEN = RunFailure("ValueError", "broken")
EXACT = RetryPolicy(max_attempts=5, initial_backoff_ms=1_000, max_backoff_ms=60_000, jitter=Jitter.NONE)


def only(claimed: Claimed) -> Claim:
    (held,) = claimed.claims
    return held


def put_one(queue: Queue, body: bytes = b"x") -> str:
    return enqueue(queue, Draft(body)).message_id


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


def test_backoff_is_capped_and_full_jitter_spreads_below_the_cap(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=20, initial_backoff_ms=1_000, max_backoff_ms=3_000))
    put_one(queue)
    waits = []
    for luck in (0.0, 0.5, 0.999, 0.999):
        bench.luck = luck
        held = only(claim(queue, owner="w"))
        decision = nack(queue, held.entry, held.message, BROKEN)
        assert isinstance(decision, RetryAt)
        waits.append(decision.due - bench.clock())
        bench.clock.now = decision.due
    assert waits == [0, 1_000, 2_997, 2_997]


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


def test_a_paused_queue_hands_out_nothing_and_still_accepts(bench: Bench) -> None:
    queue = bench.queue()
    pause(queue, "ops")
    put_one(queue)
    assert claim(queue, owner="w").claims == []
    state = queue.state(fresh=True)
    assert (state.paused_by, state.depth) == ("ops", 1)
    resume(queue, "ops")
    assert only(claim(queue, owner="w"))


def test_higher_priority_first_then_oldest_first_retries_included(bench: Bench) -> None:
    queue = bench.queue(delivery=EXACT)
    for number, priority in enumerate(["low", "high", "normal", "critical", "high", 9_999]):
        enqueue(queue, Draft(b"%d" % number, priority=priority))
        bench.clock.forward(1)
    first = claim(queue, owner="w", limit=3).claims
    assert [body_of(queue, c) for c in first] == [b"5", b"3", b"1"]
    for held in first:
        nack(queue, held.entry, held.message, BROKEN)
    bench.clock.forward(1_000)
    assert [body_of(queue, c) for c in claim(queue, owner="w", limit=9).claims] == [
        b"5", b"3", b"1", b"4", b"2", b"0",
    ]  # fmt: skip


def test_a_claim_filter_takes_only_what_matches(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"a", project="billing", labels=("eu", "gold"), priority=10))
    enqueue(queue, Draft(b"b", project="billing", labels=("us",), priority=300))
    enqueue(queue, Draft(b"c", project="search", labels=("eu",), priority=20))

    def bodies(wanted: Filter) -> list[bytes]:
        claims = claim(queue, owner="w", limit=10, only=wanted).claims
        release(queue, [c.entry for c in claims])
        return [body_of(queue, c) for c in claims]

    assert bodies(Filter(project="billing")) == [b"b", b"a"]
    assert bodies(Filter(labels=("eu",))) == [b"c", b"a"]
    assert bodies(Filter(labels=("eu", "gold"))) == [b"a"]
    assert bodies(Filter(max_priority=20)) == [b"c", b"a"]
    assert bodies(Filter(project="nobody")) == []


def test_a_filter_finds_its_match_behind_many_others(bench: Bench) -> None:
    queue = bench.queue()
    enqueue_all(queue, [Draft(b"", project="many")] * 150 + [Draft(b"found", project="one")])
    assert body_of(queue, only(claim(queue, owner="w", only=Filter(project="one")))) == b"found"


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
    bench.store.put_messages = lambda _messages: (_ for _ in ()).throw(ConnectionError("killed"))  # type: ignore[method-assign]
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
    bench.store.drop_entries = lambda _entries: (_ for _ in ()).throw(ConnectionError("killed"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        enqueue(queue, Draft(b"two", idempotency_key="k"))
    del bench.store.drop_entries
    bench.clock.forward(ORPHAN_GRACE_MS)
    claims = claim(queue, owner="w", limit=10).claims
    assert [body_of(queue, c) for c in claims] == [b"one"]


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


def test_the_workflow_document_is_guarded_by_claim_and_version(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5, delivery=EXACT)
    put_one(queue)
    first = only(claim(queue, owner="a"))
    assert read_workflow_state(queue, first.entry).version == 0
    assert write_workflow_state(queue, first.entry, b'{"step": 1}', 0).version == 1
    with pytest.raises(StaleState) as caught:
        write_workflow_state(queue, first.entry, b'{"step": 9}', 0)
    assert caught.value.current == 1
    nack(queue, first.entry, first.message, BROKEN)
    bench.clock.forward(1_000)
    second = only(claim(queue, owner="b"))
    assert read_workflow_state(queue, second.entry).content == b'{"step": 1}'
    with pytest.raises(StaleClaim):
        write_workflow_state(queue, first.entry, b'{"step": 2}', 1)
    bench.clock.forward(5_000)
    with pytest.raises(StaleClaim):
        write_workflow_state(queue, second.entry, b'{"step": 2}', 1)
    with pytest.raises(InvalidField, match="state"):
        write_workflow_state(queue, second.entry, b"x" * 65_537, 1)


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


@pytest.mark.parametrize("ordering", Ordering)
def test_a_message_waits_no_longer_than_it_is_kept(bench: Bench, ordering: Ordering) -> None:
    """Put off beyond retention it would be met by nobody, and TTL could take its message before it was due."""
    queue = bench.queue(ordering=ordering, retention=Retention(max_age_seconds=60))
    for give_back in (
        lambda held: snooze(queue, held.entry, bench.clock() + 90 * DAY),
        lambda held: nack(queue, held.entry, held.message, RunFailure("E", "e"), delay_ms=90 * DAY),
    ):
        message_id = enqueue(queue, Draft(b"late", key="k")).message_id
        (held,) = claim(queue, owner="w").claims
        give_back(held)
        bench.clock.forward(59_999)
        assert sweep(queue).buried == 0
        bench.clock.forward(1)
        assert sweep(queue).buried == 1
        assert status(queue, message_id).status is MessageStatus.DEAD


def test_a_message_sent_again_after_its_window_begins_with_an_empty_document(bench: Bench) -> None:
    queue = bench.queue(idempotency=Idempotency(window_seconds=60))
    for _ in range(2):
        enqueue(queue, Draft(b"x", idempotency_key="again"))
        (held,) = claim(queue, owner="w").claims
        assert read_workflow_state(queue, held.entry).version == 0
        assert write_workflow_state(queue, held.entry, b"step 1", 0).version == 1
        assert write_workflow_state(queue, held.entry, b"step 2", 1).version == 2
        assert read_workflow_state(queue, held.entry).content == b"step 2"
        ack(queue, [held.entry])
        bench.clock.forward(60_000)
