"""The context of a command that runs while its sender waits: there is no message and no claim."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Event
from typing import Any

from millrace.handlers.context import Context, RunLogger
from millrace.model.clock import Clock, system_clock, system_entropy
from millrace.model.ids import random_token

log = logging.getLogger("millrace.webhooks")
#: API Gateway ends a call after 30 s.
CALL_MS = 29_000


class UnkeptState:
    """The workflow state of a call that has no message: it lasts as long as the call."""

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self._steps: dict[str, Any] = {}

    def steps(self) -> dict[str, Any]:
        return dict(self._steps)

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        self._steps = dict(steps)

    def read(self) -> dict[str, Any]:
        return dict(self._state)

    def write(self, state: Mapping[str, Any]) -> None:
        self._state = dict(state)


class CallContext(Context):
    """What a command gets besides its input where there is no claim: the same names, as far as they mean anything."""

    attempt = 1
    version = 0  #: nothing is fenced: whoever calls twice runs it twice
    message_id = ""
    staged = None  #: there is no ack that writes could be made with
    body = b""  #: there is no message: what there is, is the input

    def __init__(self, correlation_id: str, given: Any, clock: Clock = system_clock) -> None:
        self._correlation_id = correlation_id
        self._clock = clock
        self._state = UnkeptState()
        #: Nothing names the work of a call: whoever calls twice does it twice.
        self._effect_root = random_token(system_entropy)
        self.input = given
        self.cancelled = Event()
        self.deadline = clock() + CALL_MS

    @property
    def correlation_id(self) -> str:
        return self._correlation_id

    @property
    def effect_root(self) -> str:
        return self._effect_root

    @property
    def state(self) -> UnkeptState:
        return self._state

    @property
    def fields(self) -> dict[str, Any]:
        return {"correlation_id": self._correlation_id}

    @property
    def logger(self) -> RunLogger:
        return RunLogger(log, self.fields)

    def remaining_ms(self) -> int:
        return max(0, self.deadline - self._clock())

    def extend(self, seconds: float) -> None:
        """Does nothing: the sender waits no longer than API Gateway lets it."""
