"""When a failed message is tried again, or whether at all. Pure: time and chance are passed in."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.model.clock import Chance
from millrace.model.queue_spec import Jitter, RetryPolicy


@dataclass(frozen=True, slots=True)
class RetryAt:
    due: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Its attempts are used up."""


def backoff_cap(delivery: RetryPolicy, attempt: int) -> int:
    """The longest wait after failed attempt number `attempt`: initial × 2^(attempt-1), capped."""
    doublings = min(attempt - 1, 40)
    return min(delivery.initial_backoff_ms << doublings, delivery.max_backoff_ms)


def decide(
    delivery: RetryPolicy, attempts: int, now: int, chance: Chance, delay_ms: int | None = None
) -> RetryAt | GiveUp:
    """After `attempts` failed runs: when to try again. A handler may name its own delay."""
    if attempts >= delivery.max_attempts:
        return GiveUp()
    if delay_ms is not None:
        return RetryAt(now + delay_ms)
    cap = backoff_cap(delivery, attempts)
    wait = int(chance() * (cap + 1)) if delivery.jitter is Jitter.FULL else cap
    return RetryAt(now + wait)
