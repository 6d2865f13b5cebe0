"""Metrics: what a drain counted, and once a minute how every queue stands.

Powertools writes them in CloudWatch's embedded format (EMF) to standard output, so that no call goes out. Gauges are
counted from the queues' state and not where messages end: so they see every ending, by a worker, by the pull API, by
the sweep, by a person.
"""

from __future__ import annotations

import os
from collections import Counter

from millrace.engine.inspect import Stats, stats
from millrace.engine.queue import Queue
from millrace.model.errors import MillraceError
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer
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


def emit_gauges(drainer: QueueDrainer) -> None:
    """Write one document for each queue that holds anything, and one for all of them, even when they are empty.

    The document for all shows that the sweep runs: an alarm watches for its absence. Costs one query, and for
    each queue with messages what `stats` costs.
    """
    states = drainer.runtime.store.list_all_queue_states()
    held = [state for state in states if (state.depth or state.dead_days) and state.queue in drainer.definitions.queues]
    figures = Counter[str]()
    oldest = 0.0
    for state in held:
        found = _stats(drainer, state.tenant, state.queue)
        if found is not None:
            gauges = _gauges(found)
            _emit_gauges(gauges, {"queue": state.queue}, tenant=state.tenant)
            figures.update({name: int(value) for name, value in gauges.items()})
            oldest = max(oldest, gauges["OldestAge"])
    _emit_gauges({**{name: float(figures[name]) for name in GAUGES}, "OldestAge": oldest}, {})


def _stats(drainer: QueueDrainer, tenant: str, name: str) -> Stats | None:
    try:
        return stats(drainer.queue(tenant, name))
    except MillraceError as error:
        fields = {"action": "gauges_failed", "queue": name, "tenant": tenant, "error": str(error)}
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
