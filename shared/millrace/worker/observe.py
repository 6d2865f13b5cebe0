"""Logging, metrics and tracing of the work: each a middleware, or a look at what a drain counted.

Powertools does the writing: structured logs, and metrics in CloudWatch's embedded format (EMF) on standard output,
so that no call goes out. The tracer is imported only where tracing is on: it costs a cold start 170 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from millrace.engine.queue import Queue
from millrace.worker.context import Context, log
from millrace.worker.controls import Control
from millrace.worker.middleware import Handler, Middleware
from millrace.worker.worker import Drained

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
VALUES = 100


def logging_middleware(context: Context, run: Handler) -> Any:
    """A line for every run that did not succeed; one for every run at debug level. Never a body, never a result."""
    try:
        result = run(context)
    except Control as control:
        context.logger.info(
            "The handler raised %s.", type(control).__name__, extra={"action": "run_controlled", "reason": str(control)}
        )
        raise
    except Exception as error:
        context.logger.warning(
            "A run failed.",
            extra={"action": "run_failed", "error_type": type(error).__name__, "error": str(error)[:300]},
        )
        raise
    if log.isEnabledFor(10):
        context.logger.debug("A run succeeded.", extra={"action": "run_done"})
    return result


def tracing_middleware(tracer: Any) -> Middleware:
    """A subsegment a run, hung below the segment that was open when the worker was made."""
    parent = tracer.provider.get_trace_entity()

    def traced(context: Context, run: Handler) -> Any:
        if parent is not None:
            tracer.provider.set_trace_entity(parent)
        with tracer.provider.in_subsegment(name=f"## {context.queue.spec.name}") as segment:
            for name, value in context.fields.items():
                segment.put_annotation(key=name, value=value)
            return run(context)

    return traced


Emit = Callable[[Queue, Drained], None]


def namespace() -> str:
    """Where metrics go: template.yaml names one for each stack, so that two in one account stay apart."""
    return os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE


def emit_metrics(queue: Queue, drained: Drained) -> None:
    """Write what a drain counted as EMF, with the queue as its dimension."""
    counts = drained.counts
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
        for value in spread(values, VALUES - 1):
            metrics.add_metric(name, MetricUnit.Milliseconds, value)
    metrics.add_metadata("tenant", queue.tenant)
    metrics.flush_metrics()


def spread(values: tuple[int, ...], most: int) -> tuple[int, ...]:
    """At most so many of the values, even over their range: percentiles stay as they are."""
    if len(values) <= most:
        return values
    ranked = sorted(values)
    last = len(ranked) - 1
    return tuple(ranked[round(number * last / (most - 1))] for number in range(most))


def log_drained(queue: Queue, drained: Drained) -> None:
    """One line a drain that did anything."""
    if drained.counts["started"] or drained.stuck:
        log.info(
            "A drain is over.",
            extra={
                "action": "drained",
                "tenant": queue.tenant,
                "queue": queue.spec.name,
                "reason": drained.reason,
                "stuck": drained.stuck,
                "counts": dict(drained.counts.outcomes),
            },
        )
