"""What a handler gets beside its input: the same names and the same promises wherever it runs.

A function is given a `Context`, whose calls block; a coroutine function an `AsyncContext`, whose calls are awaited.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from millrace.model.errors import InvalidTransaction
from millrace.model.journal import check_name, effect_key, json_value, keep_step, once
from millrace.model.strict_json import parse
from millrace.model.transaction import Staged

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


T = TypeVar("T")
NO_TRANSACTION = (
    "This run cannot ack in a transaction: only a worker of the deployment, in Lambda or as a process of its own, "
    "writes to the queue's table. Use `once` with `idempotency_key` here, or run the handler there."
)


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

    def steps(self) -> dict[str, Any]:
        """What the steps of `once` returned. Raises StaleClaim."""

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        """Replace them; the handler's own state stays as it is. Raises StaleClaim or StaleState."""


class Context(ABC):
    """One run of a handler."""

    __slots__ = ()

    cancelled: Event  #: set when the claim is lost, the time is up or somebody cancels the message: stop
    deadline: int  #: ms; past it the run counts as failed, whatever it still does
    input: Any  #: what the queue's mapping makes of the message
    staged: Staged | None  #: writes that are made with the ack; None where this run cannot ack in a transaction

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

    @property
    @abstractmethod
    def effect_root(self) -> str:
        """Names this message's work: the same in every attempt, and in replays of its dead letter."""

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return parse(self.body)

    def transact(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Stage writes of the app's own (boto3's `TransactItems`): made in one transaction with the ack, or not at all.

        They happen if and only if the message is done: where the handler raises, they are dropped; where a condition
        among them does not hold, the run has failed for that reason; where the claim is lost, nothing changes.
        PynamoDB's `TransactWrite(connection=context.staged)` stages the same way. Up to 98 writes to tables of the
        queue's account and region. Raises InvalidTransaction, also where the run cannot write to the queue's table:
        over the pull API, or in a webhook without a queue.
        """
        if self.staged is None:
            raise InvalidTransaction(NO_TRANSACTION)
        self.staged.add(items)

    def once(self, name: str, step: Callable[[], T]) -> T:
        """What a step returned, from this run or an earlier one: it is not run again once that is kept.

        A run that dies between the effect and the journal repeats the step: hand `idempotency_key(name)` to whoever
        performs the effect. The value is what JSON makes of it. Raises StaleClaim, before the step where the claim
        is lost by then. One transaction (4 write units and up) for a step that runs, nothing for one that is kept.
        """
        return once(self.state, name, step)

    def idempotency_key(self, name: str) -> str:
        """A key for one effect of this message: the same in every attempt, and in replays of its dead letter."""
        return effect_key(self.effect_root, name)


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

    @property
    def staged(self) -> Staged | None:
        return self._context.staged

    @property
    def effect_root(self) -> str:
        return self._context.effect_root

    def transact(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Stage writes of the app's own, made in one transaction with the ack. Raises InvalidTransaction."""
        self._context.transact(items)

    async def once(self, name: str, step: Callable[[], Awaitable[T]]) -> T:
        """What a step returned, from this run or an earlier one; the step is a coroutine function."""
        check_name(name)
        steps = await asyncio.to_thread(self._context.state.steps)
        if name in steps:
            kept: T = steps[name]
            return kept
        value: T = json_value(name, await step())
        await asyncio.to_thread(keep_step, self._context.state, {**steps, name: value})
        return value

    def idempotency_key(self, name: str) -> str:
        """A key for one effect of this message: the same in every attempt, and in replays of its dead letter."""
        return self._context.idempotency_key(name)
