"""When a failed message is tried again."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.finish import RetryAt, nack
from millrace.model.queue_spec import RetryPolicy
from tests.conftest import Bench
from tests.engine.steps import BROKEN, only, put_one


def test_backoff_is_capped_and_full_jitter_spreads_below_the_cap(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=20, initial_backoff_ms=1_000, max_backoff_ms=3_000))
    put_one(queue)
    waits = []
    for chance in (0.0, 0.5, 0.999, 0.999):
        bench.chance = chance
        held = only(claim(queue, owner="w"))
        decision = nack(queue, held.entry, held.message, BROKEN)
        assert isinstance(decision, RetryAt)
        waits.append(decision.due - bench.clock())
        bench.clock.now = decision.due
    assert waits == [0, 1_000, 2_997, 2_997]
