"""What a consumer tells along its life: hooks that it calls, and how its log lines name a delivery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millrace.client.delivery import DeliveryState


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called along a consumer's life; an asynchronous one awaits them. What a hook raises is logged, no more."""

    started: Callable[[], Any] = _nothing
    claimed: Callable[[Any], Any] = _nothing  #: the delivery
    done: Callable[[Any], Any] = _nothing  #: the delivery
    failed: Callable[[Any, BaseException], Any] = _nothing  #: the delivery, what its handler raised
    lost: Callable[[Any], Any] = _nothing  #: the delivery is another worker's, or is given back now: stop working on it
    fetch_failed: Callable[[str, BaseException, float], Any] = _nothing  #: queue, why, seconds until the next try
    stopped: Callable[[], Any] = _nothing


def log_fields(delivery: DeliveryState) -> dict[str, Any]:
    """What a log line about a delivery carries."""
    message = delivery.message
    return {
        "queue": message.queue,
        "message_id": message.message_id,
        "attempt": message.attempt,
        "correlation_id": message.correlation_id,
    }


def named(delivery: DeliveryState) -> str:
    """A delivery as a log line names it."""
    message = delivery.message
    return f"message {message.message_id} of {message.queue}, attempt {message.attempt}"
