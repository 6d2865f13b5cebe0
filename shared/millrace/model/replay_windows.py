"""A window of the past that is replayed: which messages, where to, and what was met on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

#: Samples that are kept.
SAMPLES = 10


class ReplayOf(StrEnum):
    """Which messages are replayed, by how they ended."""

    DONE = "done"
    DEAD = "dead"
    ALL = "all"  #: done and dead

    @property
    def statuses(self) -> list[str]:
        both = [ReplayOf.DONE.value, ReplayOf.DEAD.value]
        return both if self is ReplayOf.ALL else [self.value]


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """What a job is to replay."""

    of: ReplayOf
    to: str  #: a queue's name
    received_from: int
    received_before: int

    def holds(self, received_at: int) -> bool:
        return self.received_from <= received_at < self.received_before

    def written(self) -> str:
        return json.dumps([self.of, self.to, self.received_from, self.received_before])


def read_window(written: str) -> ReplayWindow:
    of, *rest = json.loads(written)
    return ReplayWindow(ReplayOf(of), *rest)


@dataclass(frozen=True, slots=True)
class WindowSample:
    """A message that is, or would be, replayed. Nothing of what its sender sent."""

    id: str
    status: str
    received_at: int


@dataclass(frozen=True, slots=True)
class WindowFound:
    """What a job has met in its window."""

    #: How many messages it has met, by their status.
    statuses: Mapping[str, int] = field(default_factory=dict)
    units: float = 0.0  #: read units
    samples: tuple[WindowSample, ...] = ()  #: the first of those that it replays, or would

    def met(self, status: str) -> WindowFound:
        return replace(self, statuses={**self.statuses, status: self.statuses.get(status, 0) + 1})

    def charged(self, units: float) -> WindowFound:
        return replace(self, units=self.units + units)

    def chosen(self, sample: WindowSample) -> WindowFound:
        return replace(self, samples=(*self.samples, sample)) if len(self.samples) < SAMPLES else self

    def written(self) -> str:
        samples = [[one.id, one.status, one.received_at] for one in self.samples]
        return json.dumps([dict(self.statuses), self.units, samples])


def read_found(written: str) -> WindowFound:
    if not written:
        return WindowFound()
    statuses, units, samples = json.loads(written)
    return WindowFound(statuses, units, tuple(WindowSample(*one) for one in samples))
