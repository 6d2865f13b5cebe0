"""Counters of dead letters through replay and purge."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters, purge_dead_letter, replay
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.inspect import stats
from millrace.model.message import Draft
from millrace.model.queue_spec import RetryPolicy
from tests.conftest import Bench


def test_dead_letters_are_counted_through_replay_and_purge(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    enqueue_all(queue, [Draft(b"x")] * 3)
    for held in claim(queue, owner="w", limit=3).claims:
        nack(queue, held.entry, held.message, RunFailure("E", "x"))
    assert stats(queue).dead_letters == 3
    dead_letters = list_dead_letters(queue).items
    replay(queue, dead_letters[0], job="j1")
    purge_dead_letter(queue, dead_letters[1].sk)
    assert stats(queue).dead_letters == 1, "one is replayed, one is gone"
    replay(queue, list_dead_letters(queue).items[0], job="j2")
    purge_dead_letter(queue, dead_letters[0].sk)
    assert stats(queue).dead_letters == 1, "what was replayed is counted once"
    bench.clock.forward(queue.spec.retention.dead_letter_seconds * 1_000 + 86_400_000)
    assert stats(queue).dead_letters == 0
    assert list_dead_letters(queue).items == ()
    (day,) = queue.state(fresh=True).dead_days
    bench.clock.forward(2 * 86_400_000)
    enqueue(queue, Draft(b"x"))
    ack(queue, [c.entry for c in claim(queue, owner="w", limit=9).claims])
    assert day not in queue.state(fresh=True).dead_days
