"""Owners that race for the head of a lane part it between them; nobody keeps anything waiting."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.engine.shares import ALL_TURNS_MS, MANY_RIVALS, SHARING_MS, TURN_MS, note_holders
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from tests.conftest import Bench

OWNERS = ("a", "b", "c", "d")
#: So many that each owner surely has some of them: ids differ from run to run.
MANY = [Draft(b"x")] * 100


def processes(bench: Bench) -> list[Queue]:
    return [bench.queue(runtime=bench.another_process()) for _ in OWNERS]


def lose(bench: Bench, queue: Queue, pk: str, rivals: tuple[str, ...]) -> None:
    """As if a claim had just been lost, and these had been seen."""
    queue.poll_memory.lost_at[pk] = bench.clock()
    queue.poll_memory.rivals[pk] = dict.fromkeys(rivals, bench.clock())


def test_who_never_lost_takes_the_head_in_its_order(bench: Bench) -> None:
    queue = bench.queue()
    receipts = enqueue_all(queue, [Draft(b"x")] * 6)
    first = claim(bench.queue(runtime=bench.another_process()), owner="a", limit=3).claims
    second = claim(bench.queue(runtime=bench.another_process()), owner="b", limit=3).claims
    assert [held.message.id for held in (*first, *second)] == [one.message_id for one in receipts]  # type: ignore[union-attr]


def test_a_lost_claim_names_the_rival(bench: Bench) -> None:
    one, two = bench.queue(runtime=bench.another_process()), bench.queue(runtime=bench.another_process())
    enqueue_all(one, [Draft(b"x")])
    claim_entries = bench.store.claim_entries

    def meanwhile(entries, now):  # type: ignore[no-untyped-def]
        bench.store.claim_entries = claim_entries  # type: ignore[method-assign]
        assert claim(two, owner="two").claims
        return claim_entries(entries, now)

    bench.store.claim_entries = meanwhile  # type: ignore[method-assign]
    assert claim(one, owner="one").claims == []
    (pk,) = one.partitions()
    assert one.poll_memory.lost_at == {pk: bench.clock()}
    assert "two" in one.poll_memory.rivals[pk]
    assert two.poll_memory.lost_at == {}


def test_rivals_claim_apart_from_each_other_at_once_and_leave_nothing_after_their_turns(bench: Bench) -> None:
    queues = processes(bench)
    (pk,) = queues[0].partitions()
    enqueue_all(bench.queue(), MANY)
    for queue in queues:
        lose(bench, queue, pk, OWNERS)
    taken = [claim(queue, owner=owner, limit=100) for queue, owner in zip(queues, OWNERS, strict=True)]
    assert all(0 < len(one.claims) < 100 for one in taken), "each has its own part of what is new"
    assert sum(len(one.claims) for one in taken) == 100, "and each message belongs to one"
    for one in taken:
        ack(queues[0], [held.entry for held in one.claims])


def test_what_a_rival_leaves_is_anybodys_within_its_turns(bench: Bench) -> None:
    queue = bench.queue()
    (pk,) = queue.partitions()
    enqueue_all(queue, MANY)
    lose(bench, queue, pk, OWNERS)
    now = claim(queue, owner="a", limit=100)
    assert now.next_at == bench.clock() + TURN_MS
    bench.clock.forward(3 * TURN_MS)
    rest = claim(queue, owner="a", limit=100)
    assert len(now.claims) + len(rest.claims) == 100


def test_many_rivals_keep_nothing_for_longer_than_all_turns(bench: Bench) -> None:
    queue = bench.queue()
    (pk,) = queue.partitions()
    lose(bench, queue, pk, tuple(f"r{n}" for n in range(60)))
    enqueue_all(queue, [Draft(b"x")] * 10)
    bench.clock.forward(ALL_TURNS_MS)
    assert len(claim(queue, owner="a", limit=10).claims) == 10


def test_a_backlog_is_parted_and_nobody_goes_without(bench: Bench) -> None:
    """What is old is anybody's: one's own first, then the others'."""
    queues = processes(bench)
    (pk,) = queues[0].partitions()
    enqueue_all(bench.queue(), [Draft(b"x")] * 20)
    bench.clock.forward(ALL_TURNS_MS)
    polls = []
    for queue, owner in zip(queues, OWNERS, strict=True):
        lose(bench, queue, pk, OWNERS)
        held = claim(queue, owner=owner, limit=3).claims
        assert len(held) == 3
        polls.append({one.message.id for one in held})
    assert len(set().union(*polls)) == 12


def test_priority_stays_exact_where_owners_share(bench: Bench) -> None:
    queue = bench.queue()
    (pk,) = queue.partitions()
    enqueue_all(queue, [Draft(b"x", priority=100)] * 80 + [Draft(b"y", priority=1)] * 10)
    lose(bench, queue, pk, OWNERS)
    first = claim(queue, owner="a", limit=100).claims
    assert {held.entry.priority for held in first} == {100}
    assert len(first) < 80
    bench.clock.forward(ALL_TURNS_MS)
    rest = [held.entry.priority for held in claim(queue, owner="a", limit=100).claims]
    assert rest == [100] * (80 - len(first)) + [1] * 10


def test_sharing_ends_a_while_after_the_last_loss(bench: Bench) -> None:
    queue = bench.queue()
    (pk,) = queue.partitions()
    lose(bench, queue, pk, OWNERS)
    bench.clock.forward(SHARING_MS)
    enqueue_all(queue, [Draft(b"x")] * 10)
    assert len(claim(queue, owner="a", limit=10).claims) == 10


def test_ordered_queues_do_not_share(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    (pk,) = queue.partitions()
    enqueue_all(queue, [Draft(b"x")] * 10)
    lose(bench, queue, pk, OWNERS)
    assert len(claim(queue, owner="a", limit=10).claims) == 10


def test_names_of_rivals_do_not_pile_up(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    (pk,) = queue.partitions()
    enqueue_all(queue, [Draft(b"x")])
    (held,) = claim(queue, owner="w", lease_ms=3_600_000).claims
    for number in range(3 * MANY_RIVALS):
        memory_bench.clock.forward(SHARING_MS)
        held_by = held.entry.claimed(f"t{number}", f"w{number}", memory_bench.clock(), 60_000)
        note_holders(queue.poll_memory, pk, [held_by], memory_bench.clock())
    assert len(queue.poll_memory.rivals[pk]) <= MANY_RIVALS + 1


def test_who_asks_only_once_is_handed_what_was_left_to_others(bench: Bench) -> None:
    queue = bench.queue()
    (pk,) = queue.partitions()
    enqueue_all(queue, MANY)
    lose(bench, queue, pk, OWNERS)
    shared = claim(queue, owner="a", limit=100)
    assert shared.left
    assert len(shared.claims) < 100
    rest = claim(queue, owner="a", limit=100, sharing=False)
    assert (len(shared.claims) + len(rest.claims), rest.left) == (100, False)
