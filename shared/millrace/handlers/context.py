"""What a handler gets beside its input: the same names and the same promises wherever it runs.

A function is given a `Context`, whose calls block; a coroutine function an `AsyncContext`, whose calls are awaited.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from millrace.model.strict_json import parse

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class RunLogger(_Adapter):
    """A logger with the run's own fields on every line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


class StateAccess(Protocol):
    """The message's workflow state: an object of the handler's own, kept from run to run."""

    def read(self) -> dict[str, Any]:
        """The state; empty where none was written. Raises StaleClaim."""

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state. Raises StaleClaim or StaleState; then nothing was written."""


class Context(ABC):
    """One run of a handler."""

    __slots__ = ()

    cancelled: Event  #: set when the claim is lost, the time is up or somebody cancels the message: stop
    deadline: int  #: ms; past it the run counts as failed, whatever it still does
    input: Any  #: what the queue's mapping makes of the message

    @property
    @abstractmethod
    def message_id(self) -> str: ...

    @property
    @abstractmethod
    def attempt(self) -> int:
        """Which run this is, from 1."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Fencing token: only grows. Whoever stores what this run does can refuse a smaller one."""

    @property
    @abstractmethod
    def correlation_id(self) -> str: ...

    @property
    @abstractmethod
    def body(self) -> bytes:
        """The body exactly as it was received; a large one is fetched when it is asked for."""

    @property
    @abstractmethod
    def state(self) -> StateAccess:
        """The message's workflow state, kept from run to run."""

    @property
    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What every log line about this run carries."""

    @property
    @abstractmethod
    def logger(self) -> RunLogger: ...

    @abstractmethod
    def remaining_ms(self) -> int:
        """How long the run may still take."""

    @abstractmethod
    def extend(self, seconds: float) -> None:
        """Let the run take so many seconds from now; its deadline never comes nearer. One write.

        The claim itself is kept alive without this. Raises StaleClaim where it is lost.
        """

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return parse(self.body)


class AsyncState:
    """The workflow state, awaited."""

    def __init__(self, state: StateAccess) -> None:
        self._state = state

    async def read(self) -> dict[str, Any]:
        """The state; empty where none was written. Raises StaleClaim."""
        return await asyncio.to_thread(self._state.read)

    async def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state. Raises StaleClaim or StaleState; then nothing was written."""
        await asyncio.to_thread(self._state.write, state)


class AsyncContext:
    """One run of a coroutine function: a `Context` whose calls do not block the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.state = AsyncState(context.state)

    @property
    def cancelled(self) -> Event:
        return self._context.cancelled

    @property
    def deadline(self) -> int:
        return self._context.deadline

    @property
    def input(self) -> Any:
        return self._context.input

    @property
    def message_id(self) -> str:
        return self._context.message_id

    @property
    def attempt(self) -> int:
        return self._context.attempt

    @property
    def version(self) -> int:
        return self._context.version

    @property
    def correlation_id(self) -> str:
        return self._context.correlation_id

    @property
    def fields(self) -> dict[str, Any]:
        return self._context.fields

    @property
    def logger(self) -> RunLogger:
        return self._context.logger

    def remaining_ms(self) -> int:
        return self._context.remaining_ms()

    async def read_body(self) -> bytes:
        """The body exactly as it was received."""
        return await asyncio.to_thread(lambda: self._context.body)

    async def extend(self, seconds: float) -> None:
        """Let the run take so many seconds from now. Raises StaleClaim."""
        await asyncio.to_thread(self._context.extend, seconds)
