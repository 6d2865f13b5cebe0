"""A run knows whether its claim still holds."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.model.message import Draft
from millrace.worker.run import Run, Stage
from tests.conftest import Bench


def test_a_run_is_live_until_its_claim_is_over_less_the_margin(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    enqueue(queue, Draft(b"{}"))
    (taken,) = claim(queue, owner="w", limit=1).claims
    run = Run(taken, taken.entry)
    assert run.stage is Stage.BUFFERED
    assert run.live(taken.entry.until - 1)
    assert not run.live(taken.entry.until)
    assert not run.live(taken.entry.until - 10, margin_ms=10)
