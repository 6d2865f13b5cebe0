"""fifo, per_key and fairness: who may start, and that nobody starves."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.engine.claim import Claim, body_of, claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack, release
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from tests.conftest import Bench
from tests.engine.steps import raising

BROKEN = RunFailure("ValueError", "broken")
SLOW_RETRY = RetryPolicy(max_attempts=2, initial_backoff_ms=10_000, max_backoff_ms=10_000, jitter=Jitter.NONE)


def bodies(queue: Queue, claims: list[Claim]) -> list[bytes]:
    return [body_of(queue, held) for held in claims]


def test_fifo_hands_out_a_run_from_the_head_and_nothing_behind_a_claim(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, lease_seconds=5)
    enqueue_all(queue, [Draft(b"%d" % n) for n in range(6)])
    first = claim(queue, owner="a", limit=2).claims
    assert bodies(queue, first) == [b"0", b"1"]
    assert claim(queue, owner="b", limit=2).claims == []
    ack(queue, [first[0].entry])
    assert claim(queue, owner="b", limit=2).claims == []
    ack(queue, [first[1].entry])
    assert bodies(queue, claim(queue, owner="b", limit=9).claims) == [b"2", b"3", b"4", b"5"]


def test_fifo_keeps_arrival_order_over_several_senders(bench: Bench) -> None:
    one = bench.queue(ordering=Ordering.FIFO)
    two = bench.queue(ordering=Ordering.FIFO, runtime=bench.another_process())
    for number in range(12):
        enqueue((one, two)[number % 2], Draft(b"%d" % number))
    assert bodies(one, claim(one, owner="w", limit=20).claims) == [b"%d" % n for n in range(12)]


def test_a_failed_head_blocks_a_fifo_queue_until_it_ends(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO, delivery=SLOW_RETRY)
    enqueue_all(queue, [Draft(b"head"), Draft(b"next")])
    (head,) = claim(queue, owner="w").claims
    nack(queue, head.entry, head.message, BROKEN)
    blocked = claim(queue, owner="w", limit=2)
    assert (blocked.claims, blocked.next_at) == ([], bench.clock() + 10_000)
    bench.clock.forward(10_000)
    (head,) = claim(queue, owner="w").claims
    assert body_of(queue, head) == b"head"
    assert nack(queue, head.entry, head.message, BROKEN) is None
    assert bodies(queue, claim(queue, owner="w", limit=2).claims) == [b"next"]


def test_a_lost_race_for_the_fifo_head_gives_back_what_lies_behind(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    rival = bench.queue(ordering=Ordering.FIFO, runtime=bench.another_process())
    enqueue_all(queue, [Draft(b"%d" % n) for n in range(3)])
    claim_entries = bench.store.claim_entries

    def after_the_rival(entries, now):  # type: ignore[no-untyped-def]
        bench.store.claim_entries = claim_entries  # type: ignore[method-assign]
        assert len(claim(rival, owner="rival").claims) == 1
        return claim_entries(entries, now)

    bench.store.claim_entries = after_the_rival  # type: ignore[method-assign]
    assert claim(queue, owner="late", limit=3).claims == []
    (pk,) = queue.partitions()
    assert [entry.owner for entry in bench.store.read_lane(pk, "", "~", 9).items] == ["rival", "", ""]


def test_an_uncommitted_head_does_not_block_a_fifo_queue(bench: Bench) -> None:
    """Its sender was never answered, so nobody can have sent anything after it was accepted."""
    queue = bench.queue(ordering=Ordering.FIFO)
    put_messages = bench.store.put_messages
    bench.store.put_messages = raising(ConnectionError("killed"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        enqueue(queue, Draft(b"never accepted"))
    bench.store.put_messages = put_messages  # type: ignore[method-assign]
    enqueue(queue, Draft(b"accepted"))
    assert bodies(queue, claim(queue, owner="w").claims) == [b"accepted"]


def test_a_delayed_message_blocks_a_fifo_queue_in_its_place(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    enqueue(queue, Draft(b"first", not_before=bench.clock() + 1_000))
    enqueue(queue, Draft(b"second"))
    assert claim(queue, owner="w", limit=2).claims == []
    bench.clock.forward(1_000)
    assert bodies(queue, claim(queue, owner="w", limit=2).claims) == [b"first", b"second"]


@pytest.mark.parametrize("shards", [1, 4])
def test_per_key_hands_out_the_first_of_each_key_only(bench: Bench, shards: int) -> None:
    queue = bench.queue(ordering=Ordering.PER_KEY, shards=shards)
    enqueue_all(queue, [Draft(b"%s%d" % (key, n), key=key.decode()) for n in range(3) for key in (b"a", b"b", b"c")])
    for turn in range(3):
        claims = claim(queue, owner="w", limit=9).claims
        assert sorted(bodies(queue, claims)) == [b"%s%d" % (key, turn) for key in (b"a", b"b", b"c")]
        assert claim(queue, owner="x", limit=9).claims == []
        ack(queue, [held.entry for held in claims])


def test_a_failing_key_blocks_itself_alone(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.PER_KEY, delivery=SLOW_RETRY)
    enqueue_all(queue, [Draft(b"a0", key="a"), Draft(b"a1", key="a"), Draft(b"b0", key="b"), Draft(b"b1", key="b")])
    for held in claim(queue, owner="w", limit=9).claims:
        if held.entry.key == "a":
            nack(queue, held.entry, held.message, BROKEN)
        else:
            ack(queue, [held.entry])
    assert bodies(queue, claim(queue, owner="w", limit=9).claims) == [b"b1"]


def test_a_key_with_a_huge_backlog_does_not_hide_the_others_of_a_per_key_queue(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.PER_KEY)
    enqueue_all(queue, [Draft(b"noise", key="noisy")] * 200 + [Draft(b"q%d" % n, key=f"quiet{n}") for n in range(5)])
    for chance in (0.0, 0.3, 0.6, 0.999):
        bench.chance = chance
        claims = claim(queue, owner="w", limit=10).claims
        assert Counter(held.entry.key for held in claims) == {"noisy": 1, **{f"quiet{n}": 1 for n in range(5)}}
        release(queue, [held.entry for held in claims])


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.5, 0.75, 0.999])
def test_a_noisy_key_does_not_starve_the_others_of_a_fair_queue(bench: Bench, chance: float) -> None:
    """Nine tenths of the backlog are one key's, all of it older: in every batch the others get their turn."""
    queue = bench.queue(fair=True)
    quiet = [Draft(b"quiet", key=f"quiet{n}") for n in range(4)] * 5
    enqueue_all(queue, [Draft(b"noise", key="noisy")] * 180 + quiet)
    bench.chance = chance
    taken: Counter[str] = Counter()
    for _ in range(4):
        claims = claim(queue, owner="w", limit=10).claims
        taken.update(held.entry.key for held in claims)
        ack(queue, [held.entry for held in claims])
    assert {taken[f"quiet{n}"] for n in range(4)} == {5}
    assert taken["noisy"] == 20


def test_a_fair_queue_still_puts_priority_first_and_age_within_a_key(bench: Bench) -> None:
    queue = bench.queue(fair=True)
    enqueue_all(
        queue,
        [Draft(b"n%d" % n, key="noisy") for n in range(30)]
        + [Draft(b"h%d" % n, key="noisy", priority="high") for n in range(2)]
        + [Draft(b"q0", key="quiet")],
    )
    assert bodies(queue, claim(queue, owner="w", limit=5).claims) == [b"h0", b"h1", b"n0", b"q0", b"n1"]


def test_shards_spread_a_queue_and_every_one_is_served(bench: Bench) -> None:
    queue = bench.queue(shards=5)
    enqueue_all(queue, [Draft(b"%d" % n, idempotency_key=str(n)) for n in range(50)])
    used = [len(bench.store.read_lane(pk, "", "~", 100).items) for pk in queue.partitions()]
    assert sum(used) == 50
    assert min(used) > 0
    assert len(claim(queue, owner="w", limit=100).claims) == 50


def test_a_fair_queue_hands_out_more_of_a_key_while_its_first_is_held(bench: Bench) -> None:
    queue = bench.queue(fair=True)
    enqueue_all(queue, [Draft(b"%d" % n, key="noisy") for n in range(3)])
    assert [bodies(queue, claim(queue, owner="w").claims) for _ in range(4)] == [[b"0"], [b"1"], [b"2"], []]


def test_a_held_retry_does_not_hide_the_next_one_that_is_due(bench: Bench) -> None:
    queue = bench.queue()
    enqueue_all(queue, [Draft(b"%d" % n, not_before=bench.clock() + 1) for n in range(3)])
    bench.clock.forward(1)
    assert [bodies(queue, claim(queue, owner="w").claims) for _ in range(4)] == [[b"0"], [b"1"], [b"2"], []]


def test_a_due_retry_is_found_behind_those_that_a_consumer_does_not_want(bench: Bench) -> None:
    queue = bench.queue()
    later = bench.clock() + 1
    enqueue_all(
        queue, [Draft(b"red", project="red", not_before=later), Draft(b"blue", project="blue", not_before=later)]
    )
    bench.clock.forward(1)
    assert bodies(queue, claim(queue, owner="w", only=Filter(project="blue")).claims) == [b"blue"]
