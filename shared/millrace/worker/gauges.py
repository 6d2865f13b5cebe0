"""What the queues look like once a minute, as metrics: alarms watch these.

Counting here and not where messages end sees every ending: by a worker, by the pull API, by the sweep, by a person.
"""

from __future__ import annotations

from collections import Counter

from millrace.engine.inspect import Stats, stats
from millrace.model.errors import MillraceError
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer
from millrace.worker.observe import namespace

#: Metric → its unit.
GAUGES = {
    "Depth": "Count",
    "InFlight": "Count",
    "DeadLetters": "Count",
    "OldestAge": "Seconds",
}


def emit_gauges(drainer: QueueDrainer) -> None:
    """Write one document for each queue that holds anything, and one for all of them, even when they are empty.

    The document for all is the sign that the sweep runs: an alarm watches for its absence. Costs one query, and for
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
            _emit(gauges, {"queue": state.queue}, tenant=state.tenant)
            figures.update({name: int(value) for name, value in gauges.items()})
            oldest = max(oldest, gauges["OldestAge"])
    _emit({**{name: float(figures[name]) for name in GAUGES}, "OldestAge": oldest}, {})


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


def _emit(gauges: dict[str, float], dimensions: dict[str, str], **metadata: str) -> None:
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=namespace(), service="queues")
    for name, text in dimensions.items():
        metrics.add_dimension(name, text)
    for name, value in gauges.items():
        metrics.add_metric(name, GAUGES[name], value)
    for name, text in metadata.items():
        metrics.add_metadata(name, text)
    metrics.flush_metrics()
