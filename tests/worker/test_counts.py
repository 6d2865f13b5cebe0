"""What a drain counts stays small however long it is."""

from __future__ import annotations

from millrace.worker.counts import SAMPLE_SIZE, RunCounter


def test_a_long_drain_keeps_a_bounded_sample() -> None:
    counting = RunCounter()
    for value in range(20 * SAMPLE_SIZE):
        counting.started(value)
    kept = counting.counts().latencies_ms
    assert len(kept) <= SAMPLE_SIZE
    assert abs(sorted(kept)[len(kept) // 2] - 10 * SAMPLE_SIZE) < SAMPLE_SIZE
