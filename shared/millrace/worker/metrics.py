"""Metrics: what a drain counted, and once a minute how every queue stands.

Powertools writes them in CloudWatch's embedded format (EMF) to standard output, so that no call goes out. Gauges are
counted from the queues' state and not where messages end: so they see every ending, by a worker, by the pull API, by
the sweep, by a person.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from millrace.engine.inspect import Stats, stats
from millrace.engine.queue import Queue
from millrace.model.errors import MillraceError
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer
from millrace.worker.sweeper import in_turn
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DrainResult

NAMESPACE = "Millrace"
#: Outcome → its metric.
COUNTED = {
    "started": "Started",
    "done": "Done",
    "retried": "Retried",
    "dead": "DeadLetters",
    "snoozed": "Snoozed",
    "released": "Released",
    "stale": "StaleClaims",
    "lost": "LostClaims",
    "timed_out": "TimedOut",
    "discarded": "Discarded",
    "unwritten": "Unwritten",
}
#: EMF takes a hundred values of one metric in one document.
EMF_VALUES = 100
#: Queues are measured for at most so long in a minute.
GAUGES_MS = 10_000
#: Gauge → its unit.
GAUGES = {
    "Depth": "Count",
    "InFlight": "Count",
    "DeadLetters": "Count",
    "OldestAge": "Seconds",
}


def namespace() -> str:
    """Where metrics go: template.yaml names one for each stack, so that two in one account stay apart."""
    return os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE


def emit_metrics(queue: Queue, result: DrainResult) -> None:
    """Write what a drain counted as EMF, with the queue as its dimension."""
    counts = result.counts
    state = queue.state()
    if not (counts.outcomes or state.depth or state.breakers):
        return
    from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

    metrics = EphemeralMetrics(namespace=namespace(), service="worker")
    metrics.add_dimension("queue", queue.spec.name)
    metrics.add_metric("Depth", MetricUnit.Count, state.depth)
    metrics.add_metric("OpenTargets", MetricUnit.Count, len(state.breakers))
    for outcome, name in COUNTED.items():
        if counts[outcome]:
            metrics.add_metric(name, MetricUnit.Count, counts[outcome])
    for name, values in (("EnqueueToStart", counts.latencies_ms), ("RunTime", counts.runs_ms)):
        for value in spread(values, EMF_VALUES - 1):
            metrics.add_metric(name, MetricUnit.Milliseconds, value)
    metrics.add_metadata("tenant", queue.tenant)
    metrics.flush_metrics()


def spread(values: tuple[int, ...], limit: int) -> tuple[int, ...]:
    """At most `limit` of the values, evenly over their range: percentiles stay as they are."""
    if len(values) <= limit:
        return values
    ranked = sorted(values)
    last = len(ranked) - 1
    return tuple(ranked[round(number * last / (limit - 1))] for number in range(limit))


def log_drain(queue: Queue, result: DrainResult) -> None:
    """One log line for each drain that did anything."""
    if result.counts["started"] or result.stuck:
        log.info(
            "A drain is over.",
            extra={
                "action": "drained",
                "tenant": queue.tenant,
                "queue": queue.spec.name,
                "reason": result.reason,
                "stuck": result.stuck,
                "counts": dict(result.counts.outcomes),
            },
        )


def emit_gauges(
    drainer: QueueDrainer, states: Sequence[QueueState], time_left: TimeLeft
) -> dict[tuple[str, str], Stats]:
    """Write one document for each queue that holds anything, and one for all of them, even when they are empty.

    The document for all shows that the sweep runs: an alarm watches for its absence, so it is written whatever
    happens to the others. Where there are more queues than time, each is measured when its turn comes, and the
    document for all has the counters of the others. Costs for each queue with messages what `stats` costs. Returns
    what was measured, by tenant and queue.
    """
    now = drainer.runtime.clock()
    held = [state for state in states if (state.depth or state.dead_days) and state.queue in drainer.definitions.queues]
    figures = {(state.tenant, state.queue): _counted(drainer, state, now) for state in held}
    measured = in_turn(drainer, "gauges", held, lambda state: (state, _stats(drainer, state)), GAUGES_MS, time_left)
    for state, found in measured:
        if found is not None:
            figures[state.tenant, state.queue] = _gauges(found)
            _emit_gauges(figures[state.tenant, state.queue], {"queue": state.queue}, tenant=state.tenant)
    total = {name: float(sum(gauges[name] for gauges in figures.values())) for name in GAUGES}
    oldest = max((gauges["OldestAge"] for gauges in figures.values()), default=0.0)
    _emit_gauges({**total, "OldestAge": oldest}, {})
    return {(state.tenant, state.queue): found for state, found in measured if found is not None}


def _counted(drainer: QueueDrainer, state: QueueState, now: int) -> dict[str, float]:
    """What a queue's state says without a read."""
    kept_seconds = drainer.definitions.queue(state.queue).spec.retention.dead_letter_seconds
    return {
        **dict.fromkeys(GAUGES, 0.0),
        "Depth": max(0, state.depth),
        "DeadLetters": state.dead_letters(now, kept_seconds),
    }


def _stats(drainer: QueueDrainer, state: QueueState) -> Stats | None:
    try:
        return stats(drainer.queue(state.tenant, state.queue))
    except MillraceError as error:
        fields = {"action": "gauges_failed", "queue": state.queue, "tenant": state.tenant, "error": str(error)}
        log.warning("A queue could not be counted.", extra=fields)
        return None


def _gauges(found: Stats) -> dict[str, float]:
    return {
        "Depth": found.depth,
        "InFlight": found.in_flight,
        "DeadLetters": found.dead_letters,
        # A paused queue grows old on purpose.
        "OldestAge": 0 if found.paused else found.oldest_age_ms / 1000,
    }


def _emit_gauges(gauges: dict[str, float], dimensions: dict[str, str], **metadata: str) -> None:
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=namespace(), service="queues")
    for name, text in dimensions.items():
        metrics.add_dimension(name, text)
    for name, value in gauges.items():
        metrics.add_metric(name, GAUGES[name], value)
    for name, text in metadata.items():
        metrics.add_metadata(name, text)
    metrics.flush_metrics()
