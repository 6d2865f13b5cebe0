"""Metrics of a drain: one EMF document for its queue."""

from __future__ import annotations

import json

import pytest

from millrace.engine.enqueue import enqueue_all
from millrace.model.message import Draft
from millrace.model.queue_spec import RetryPolicy
from millrace.worker import RunContext
from millrace.worker.metrics import emit_metrics, spread
from tests.conftest import Bench
from tests.worker.conftest import drain


def test_metrics_are_one_emf_document_for_the_queue(memory_bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    queue = memory_bench.queue(delivery=RetryPolicy(max_attempts=2))
    enqueue_all(queue, [Draft(b"{}") for _ in range(300)])
    memory_bench.clock.forward(40)
    failing = iter([True] * 3 + [False] * 1000)

    def handle(_context: RunContext) -> None:
        if next(failing):
            raise ValueError("secret-text")

    drained = drain(queue, handle, concurrency=1)
    emit_metrics(queue, drained)
    document = json.loads(capsys.readouterr().out)
    assert document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["queue", "service"]]
    assert (document["queue"], document["Done"], document["Retried"]) == ("Jobs", [297.0], [3.0])
    assert set(document["EnqueueToStart"]) == {40.0}
    assert len(document["EnqueueToStart"]) < 100


def test_an_idle_drain_writes_nothing(memory_bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    queue = memory_bench.queue()
    emit_metrics(queue, drain(queue, lambda _context: None))
    assert capsys.readouterr().out == ""


def test_spread_keeps_the_ends() -> None:
    assert spread(tuple(range(1_000)), 5) == (0, 250, 500, 749, 999)
    assert spread((3, 1), 5) == (3, 1)
