"""The context of a handler over the pull API: the same names and promises as in a worker of the deployment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from millrace.client.delivery import DeliveryState
from millrace.client.errors import CallFailed, ClaimLost, StateConflict
from millrace.client.hooks import log_fields
from millrace.handlers.context import Context, RunLogger
from millrace.model.clock import Clock
from millrace.model.errors import StaleClaim, StaleState, StoreUnavailable
from millrace.model.journal import STEPS, effect_root, hidden, visible

log = logging.getLogger("millrace.client.run")

#: Waits for what a call of a delivery gives: itself, or where calls are awaited, what comes of it.
WaitFor = Callable[[Any], Any]


@contextmanager
def handler_errors(delivery: DeliveryState) -> Iterator[None]:
    """The client's errors as a handler knows them in a worker."""
    message = delivery.message
    try:
        yield
    except ClaimLost as error:
        raise StaleClaim(message.message_id, message.version, error.current_version) from error
    except StateConflict as error:
        raise StaleState(message.message_id, delivery.state_version, error.current_version) from error
    except CallFailed as error:
        raise StoreUnavailable(str(error)) from error


class PulledState:
    """The workflow state of a delivery, by calls of the API."""

    def __init__(self, delivery: Any, wait_for: WaitFor) -> None:
        self._delivery = delivery
        self._wait_for = wait_for
        given = delivery.message.state_version is not None
        self._whole: dict[str, Any] | None = dict(delivery.message.state or {}) if given else None

    def read(self) -> dict[str, Any]:
        return visible(self._load(fresh=True))

    def write(self, state: Mapping[str, Any]) -> None:
        self._store({**state, **hidden(self._load())})

    def steps(self) -> dict[str, Any]:
        return dict(self._load().get(STEPS, {}))

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        self._store({**self._load(), STEPS: dict(steps)})

    def _load(self, *, fresh: bool = False) -> dict[str, Any]:
        if fresh or self._whole is None:
            with handler_errors(self._delivery):
                self._whole = dict(self._wait_for(self._delivery.read_state()) or {})
        return self._whole

    def _store(self, whole: dict[str, Any]) -> None:
        with handler_errors(self._delivery):
            self._wait_for(self._delivery.write_state(whole))
        self._whole = whole


class PullContext(Context):
    """One run of a handler that a consumer calls."""

    __slots__ = ("_delivery", "_now", "_prolong", "_state", "_wait_for", "cancelled", "deadline", "input", "staged")

    def __init__(
        self, delivery: Any, given: Any, wait_for: WaitFor, now: Clock, prolong: Callable[[float], None]
    ) -> None:
        self._delivery = delivery
        self._wait_for = wait_for
        self._now = now
        self._prolong = prolong
        self._state = PulledState(delivery, wait_for)
        self.cancelled = delivery.cancelled
        self.deadline = now() + delivery.message.execution_timeout_ms
        self.input = given
        self.staged = None

    @property
    def effect_root(self) -> str:
        message = self._delivery.message
        accepted_at = round(message.enqueued_at.timestamp() * 1000)
        return effect_root(message.message_id, accepted_at, message.headers)

    @property
    def message_id(self) -> str:
        return str(self._delivery.message.message_id)

    @property
    def attempt(self) -> int:
        return int(self._delivery.message.attempt)

    @property
    def version(self) -> int:
        return int(self._delivery.message.version)

    @property
    def correlation_id(self) -> str:
        return str(self._delivery.message.correlation_id)

    @property
    def body(self) -> bytes:
        with handler_errors(self._delivery):
            return bytes(self._wait_for(self._delivery.read_body()))

    @property
    def state(self) -> PulledState:
        return self._state

    @property
    def fields(self) -> dict[str, Any]:
        return log_fields(self._delivery)

    @property
    def logger(self) -> RunLogger:
        return RunLogger(log, self.fields)

    def remaining_ms(self) -> int:
        return max(0, self.deadline - self._now())

    def extend(self, seconds: float) -> None:
        with handler_errors(self._delivery):
            self._wait_for(self._delivery.extend())
        self._prolong(seconds)
        self.deadline = max(self.deadline, self._now() + int(seconds * 1000))
