"""What is done to whom and when: a plan that its seed decides."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """A blow, and who gets it."""

    KILL_WORKER = "worker killed"
    STOP_WORKER = "worker stopped past its lease"
    KILL_INGRESS = "ingress killed"
    STOP_INGRESS = "ingress stopped past its lease"
    KILL_ENGINE = "DynamoDB Local killed"


#: Seconds between two blows of a kind, on average.
EVERY_S = {
    Kind.KILL_WORKER: 9.0,
    Kind.STOP_WORKER: 18.0,
    Kind.KILL_INGRESS: 17.0,
    Kind.STOP_INGRESS: 30.0,
    Kind.KILL_ENGINE: 28.0,
}
#: Everybody comes up first, and at the end everybody stays up.
QUIET_S = 8.0
#: So long past its lease a stopped process is held; so long a killed engine is missing before it is started again.
PAST_LEASE_S, MISSING_S = (0.2, 3.0), (0.0, 2.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One blow of the plan."""

    at_s: float
    kind: Kind
    target: int  #: which process of its kind, counted from 0
    hold_s: float = 0.0


def plan(seed: int, seconds: float, *, workers: int, ingresses: int, lease_s: float) -> list[Fault]:
    """The blows of a run in their order: the same for the same seed."""
    faults: list[Fault] = []
    for kind, every_s in EVERY_S.items():
        luck = random.Random(f"{seed}/{kind}")
        at_s = QUIET_S + luck.uniform(0, every_s)
        while at_s < seconds - QUIET_S:
            hold_s = 0.0
            if kind in (Kind.STOP_WORKER, Kind.STOP_INGRESS):
                hold_s = lease_s + luck.uniform(*PAST_LEASE_S)
            elif kind is Kind.KILL_ENGINE:
                hold_s = luck.uniform(*MISSING_S)
            count = ingresses if kind in (Kind.KILL_INGRESS, Kind.STOP_INGRESS) else workers
            faults.append(Fault(at_s, kind, luck.randrange(count), hold_s))
            at_s += hold_s + luck.uniform(0.5, 1.5) * every_s
    return sorted(faults, key=lambda fault: fault.at_s)
