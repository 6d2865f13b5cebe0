"""What a worker counts while it drains a queue: a few additions under a lock, given to metrics at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

#: Timings kept one by one; beyond that every second one goes, so that a long drain stays small.
SAMPLE_SIZE = 2_000


@dataclass(frozen=True, slots=True)
class Counts:
    """The figures of one drain."""

    outcomes: Mapping[str, int] = field(default_factory=dict)
    latencies_ms: tuple[int, ...] = ()  #: from enqueue (or its due time) to the start of its run
    runs_ms: tuple[int, ...] = ()

    def __getitem__(self, outcome: str) -> int:
        return self.outcomes.get(outcome, 0)


class _Sample:
    """At most SAMPLE_SIZE values, evenly spread over all that were added."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._every = 1
        self._seen = 0

    def add(self, value: int) -> None:
        self._seen += 1
        if self._seen % self._every == 0:
            self.values.append(value)
            if len(self.values) >= SAMPLE_SIZE:
                self.values = self.values[::2]
                self._every *= 2


class RunCounter:
    """What every thread of a worker adds to."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._outcomes: Counter[str] = Counter()
        self._latencies = _Sample()
        self._runs = _Sample()
        self.typical_run_ms: float | None = None  #: a moving average

    def count(self, outcome: str, number: int = 1) -> None:
        with self._lock:
            self._outcomes[outcome] += number

    def started(self, latency_ms: int) -> None:
        with self._lock:
            self._outcomes["started"] += 1
            self._latencies.add(latency_ms)

    def ran(self, run_ms: int) -> None:
        with self._lock:
            self._runs.add(run_ms)
            before = self.typical_run_ms
            self.typical_run_ms = run_ms if before is None else before + (run_ms - before) / 8

    def counts(self) -> Counts:
        with self._lock:
            return Counts(dict(self._outcomes), tuple(self._latencies.values), tuple(self._runs.values))
