"""Which process is killed or stopped when, over a run: a plan that its seed decides."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """A fault, and the kind of process that it hits."""

    KILL_WORKER = "worker killed"
    STOP_WORKER = "worker stopped past its lease"
    KILL_INGRESS = "ingress killed"
    STOP_INGRESS = "ingress stopped past its lease"
    KILL_ENGINE = "DynamoDB Local killed"


#: Seconds between two faults of a kind, on average.
EVERY_S = {
    FaultKind.KILL_WORKER: 9.0,
    FaultKind.STOP_WORKER: 18.0,
    FaultKind.KILL_INGRESS: 17.0,
    FaultKind.STOP_INGRESS: 30.0,
    FaultKind.KILL_ENGINE: 28.0,
}
#: Without a fault at the start, while all come up, and at the end.
QUIET_S = 8.0
#: How long a process stays stopped past its lease, and how long a killed engine stays away.
PAST_LEASE_S, MISSING_S = (0.2, 3.0), (0.0, 2.0)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of the plan."""

    at_s: float
    kind: FaultKind
    target: int  #: which process of its kind, counted from 0
    hold_s: float = 0.0


def plan(seed: int, seconds: float, *, workers: int, ingresses: int, lease_s: float) -> list[PlannedFault]:
    """The faults of a run in their order: the same for the same seed."""
    faults: list[PlannedFault] = []
    for kind, every_s in EVERY_S.items():
        chance = random.Random(f"{seed}/{kind}")
        at_s = QUIET_S + chance.uniform(0, every_s)
        while at_s < seconds - QUIET_S:
            hold_s = 0.0
            if kind in (FaultKind.STOP_WORKER, FaultKind.STOP_INGRESS):
                hold_s = lease_s + chance.uniform(*PAST_LEASE_S)
            elif kind is FaultKind.KILL_ENGINE:
                hold_s = chance.uniform(*MISSING_S)
            count = ingresses if kind in (FaultKind.KILL_INGRESS, FaultKind.STOP_INGRESS) else workers
            faults.append(PlannedFault(at_s, kind, chance.randrange(count), hold_s))
            at_s += hold_s + chance.uniform(0.5, 1.5) * every_s
    return sorted(faults, key=lambda fault: fault.at_s)
