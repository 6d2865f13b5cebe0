"""Metrics for Prometheus (extra `prometheus`): for people without CloudWatch, on the local stack and a worker process.

    millrace_queue_depth, millrace_queue_in_flight, millrace_queue_oldest_age_seconds, millrace_dead_letters   {queue}
    millrace_runs_total                                                             {queue, outcome}
    millrace_run_seconds, millrace_wait_seconds                                     {queue}, histograms
    millrace_store_up                                                               0 while the tables do not answer

Gauges are read from the tables when somebody asks, at most once in five seconds; runs are those of this process.
Labels are the names of the definitions and a fixed list of outcomes: tenants are added up, so that their number is
not the number of series. `prometheus_client` is imported when the first of these is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

from millrace.definitions import Definitions
from millrace.engine.inspect import Stats, stats
from millrace.engine.queue import Runtime
from millrace.handlers.controls import Reject, Retry, Snooze, Unavailable
from millrace.model.errors import MillraceError
from millrace.model.queue_state import QueueState
from millrace.worker.context import RunContext
from millrace.worker.middleware import Handler

#: What a handler raises → what its run is counted as; the first that fits.
OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (Reject, "rejected"),
    (Snooze, "snoozed"),
    (Unavailable, "unavailable"),
    (Retry, "retried"),
    (Exception, "failed"),
)
SUCCEEDED = "succeeded"
#: In seconds: from a no-op to what a Lambda may take.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
#: So long a measurement serves whoever asks.
FRESH_MS = 5_000
#: Queues are measured for at most so long; the others' turn comes with the next measurement.
MEASURE_MS = 5_000
LOOPBACK = "127.0.0.1"


class RunMetrics:
    """Counts the runs of this process. Made once: see `run_metrics`."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry = own = CollectorRegistry()
        self._runs = Counter("millrace_runs", "Runs, by what the handler gave.", ("queue", "outcome"), registry=own)
        self._took = Histogram("millrace_run_seconds", "How long runs took.", ("queue",), buckets=BUCKETS, registry=own)
        self._waited = Histogram(
            "millrace_wait_seconds",
            "From enqueue, or when due, to the run.",
            ("queue",),
            buckets=BUCKETS,
            registry=own,
        )

    def middleware(self, context: RunContext, run: Handler) -> Any:
        """Count a run and how long it took."""
        queue, entry = context.queue.spec.name, context.claim.entry
        self._waited.labels(queue).observe(max(0, context.started_at - max(entry.enqueued_at, entry.due)) / 1000)
        outcome = SUCCEEDED
        try:
            return run(context)
        except Exception as error:
            outcome = next(name for kind, name in OUTCOMES if isinstance(error, kind))
            raise
        finally:
            self._took.labels(queue).observe(max(0, context.queue.now() - context.started_at) / 1000)
            self._runs.labels(queue, outcome).inc()


@cache
def run_metrics() -> RunMetrics:
    """This process's. Raises ImportError without the extra."""
    return RunMetrics()


@dataclass(slots=True)
class _Total:
    """A queue over all of its tenants."""

    depth: int = 0
    in_flight: int = 0
    oldest_age_s: float = 0.0
    dead_letters: int = 0
    complete: bool = True  #: all of its tenants' were measured, not only their counters read

    def add(self, state: QueueState, dead_letters: int, found: Stats | None) -> None:
        self.depth += max(0, state.depth)
        self.dead_letters += dead_letters
        if found is None:
            self.complete = False
        else:
            self.in_flight += found.in_flight
            if not found.paused:  # a paused queue grows old on purpose
                self.oldest_age_s = max(self.oldest_age_s, found.oldest_age_ms / 1000)


class QueueGauges:
    """A collector of how every queue stands. Safe to be asked by several at once."""

    def __init__(self, runtime: Runtime, definitions: Definitions) -> None:
        self._runtime = runtime
        self._definitions = definitions
        self._lock = Lock()
        self._totals: dict[str, _Total] = {}
        self._measured_at: int | None = None
        self._position = ("", "")  #: where the last measurement ran out of time
        self._up = True

    def describe(self) -> list[Any]:
        """Nothing is measured only because it is registered."""
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        with self._lock:
            self._refresh()
            totals, up = self._totals, self._up
        yield GaugeMetricFamily("millrace_store_up", "Whether the tables answer.", value=float(up))
        shown: tuple[tuple[str, str, Callable[[_Total], float | None]], ...] = (
            ("millrace_queue_depth", "Unfinished messages.", lambda t: t.depth),
            ("millrace_dead_letters", "Dead letters that were not replayed.", lambda t: t.dead_letters),
            (
                "millrace_queue_in_flight",
                "Messages in a worker's hands.",
                lambda t: t.in_flight if t.complete else None,
            ),
            (
                "millrace_queue_oldest_age_seconds",
                "Age of the oldest unfinished message of a queue that is not paused.",
                lambda t: t.oldest_age_s if t.complete else None,
            ),
        )
        for name, meaning, value_of in shown:
            family = GaugeMetricFamily(name, meaning, labels=["queue"])
            for queue, total in totals.items():
                value = value_of(total)
                if value is not None:
                    family.add_metric([queue], value)
            yield family

    def _refresh(self) -> None:
        now = self._runtime.clock()
        if self._measured_at is not None and now - self._measured_at < FRESH_MS:
            return
        try:
            self._totals, self._up = self._measure(now), True
        except MillraceError:
            self._totals, self._up = {}, False  # old figures would look like new ones
        self._measured_at = now

    def _measure(self, now: int) -> dict[str, _Total]:
        totals: dict[str, _Total] = defaultdict(_Total, {name: _Total() for name in self._definitions.queues})
        states = sorted(self._states(), key=_name)
        turns = [state for state in states if _name(state) > self._position]
        turns += [state for state in states if _name(state) <= self._position]
        end, stopped = now + MEASURE_MS, False
        for state in turns:
            spec = self._definitions.queue(state.queue).spec
            dead_letters = state.dead_letters(now, spec.retention.dead_letter_seconds)
            found: Stats | None = None
            if self._runtime.clock() < end:
                found = stats(self._runtime.queue(state.tenant, spec))
                self._position = _name(state)
            else:
                stopped = True
            totals[state.queue].add(state, dead_letters, found)
        if not stopped:
            self._position = ("", "")
        return dict(totals)

    def _states(self) -> list[QueueState]:
        """Those of queues that are defined and hold anything: the others are zero."""
        states = self._runtime.store.list_all_queue_states()
        return [s for s in states if (s.depth or s.dead_days) and s.queue in self._definitions.queues]


def _name(state: QueueState) -> tuple[str, str]:
    return state.tenant, state.queue


def has_prometheus() -> bool:
    """Whether the extra is installed."""
    return find_spec("prometheus_client") is not None


def registry_with(runs: RunMetrics, gauges: QueueGauges) -> Any:
    """What ran in this process, and how the queues stand."""
    runs.registry.register(gauges)
    return runs.registry


def serve(registry: Any, port: int, host: str = LOOPBACK) -> Callable[[], None]:
    """Answer `/metrics` on a port of this machine alone, unless another address is named; what stops it."""
    from prometheus_client import start_http_server

    server, thread = start_http_server(port, addr=host, registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
