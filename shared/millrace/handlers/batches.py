"""Batches: a handler that is given several messages at once, and answers for each.

    @command("Audit.Write", batch=100, wait_ms=200)
    def write(batch):
        for item, answer in zip(batch, store([item.input for item in batch])):
            if not answer.ok:
                item.fail(Retry(after=30, reason=answer.problem))

What is neither failed nor raised is done. Each item keeps its own claim, attempt, deadline, history and context; an
exception of the whole call fails every item of it. A message that failed before is given alone, and so is one that
has no other attempt: a message that breaks its batch can bury nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from millrace.handlers.calling import HandlerFunction, is_async
from millrace.handlers.context import AsyncContext, Context
from millrace.handlers.results import result_bytes

#: Messages of one call at most: what one claim can take.
MAX_BATCH = 100
#: So long at most messages wait for company, in ms.
MAX_WAIT_MS = 10_000


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How many messages a handler takes at once, and how long the first of them waits for others."""

    size: int
    wait_ms: int = 0

    @classmethod
    def of(cls, size: int | None, wait_ms: int) -> BatchSettings | None:
        """From what a decorator was given; None for a handler of single messages. Raises ValueError."""
        if size is None:
            if wait_ms:
                raise ValueError("`wait_ms` needs `batch`: a single message waits for nobody.")
            return None
        if isinstance(size, bool) or not 1 <= size <= MAX_BATCH:
            raise ValueError(f"`batch` is 1 to {MAX_BATCH}, not {size!r}.")
        if not 0 <= wait_ms <= MAX_WAIT_MS:
            raise ValueError(f"`wait_ms` is 0 to {MAX_WAIT_MS:,}, not {wait_ms!r}.")
        return cls(size, wait_ms)

    @staticmethod
    def alone(attempt: int, max_attempts: int) -> bool:
        """Whether a message is given alone: it failed before, or its only attempt is not to be lost to another's."""
        return attempt > 1 or max_attempts == 1


class BatchItem:
    """One message of a batch: its input, its context, and what becomes of it."""

    __slots__ = ("_error", "context", "input", "result")

    def __init__(self, given: Any, context: Any) -> None:
        self.input = given  #: what the queue's mapping makes of the message
        self.context = context  #: a Context, or for a coroutine function an AsyncContext
        self.result: Any = None  #: kept for repeats of the message's idempotency key
        self._error: Exception | None = None

    def fail(self, error: Exception | str) -> None:
        """This message is not done: Retry, Reject or Snooze say what becomes of it, anything else is a failed run."""
        self._error = error if isinstance(error, Exception) else RuntimeError(error)

    @property
    def error(self) -> Exception | None:
        return self._error


class Batch(Sequence[BatchItem]):
    """The messages of one call, in the order of their queue."""

    def __init__(self, items: Sequence[BatchItem]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, index: int) -> BatchItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BatchItem, ...]: ...
    def __getitem__(self, index: int | slice) -> BatchItem | tuple[BatchItem, ...]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[BatchItem]:
        return iter(self._items)

    @property
    def inputs(self) -> list[Any]:
        return [item.input for item in self._items]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message: a result, or an error."""

    result: Any = None
    error: Exception | None = None

    def give(self) -> Any:
        """The result; raises the error."""
        if self.error is not None:
            raise self.error
        return self.result


def call_batch(handler: HandlerFunction, given: Sequence[tuple[Any, Context]]) -> list[Outcome]:
    """Run a batch handler to its end in this thread: what became of each message, in their order."""
    if is_async(handler):
        return asyncio.run(call_batch_async(handler, given))
    batch = Batch([BatchItem(*one) for one in given])
    try:
        returned = handler(batch)
    except Exception as error:  # noqa: BLE001 (a handler may raise anything; each of its messages has failed)
        return [Outcome(error=error)] * len(batch)
    return _outcomes(batch, returned)


async def call_batch_async(handler: HandlerFunction, given: Sequence[tuple[Any, Context]]) -> list[Outcome]:
    """The same for a coroutine function, on the running event loop."""
    batch = Batch([BatchItem(one, AsyncContext(context)) for one, context in given])
    try:
        returned = await handler(batch)
    except Exception as error:  # noqa: BLE001 (as above)
        return [Outcome(error=error)] * len(batch)
    return _outcomes(batch, returned)


def _outcomes(batch: Batch, returned: Any) -> list[Outcome]:
    """What the handler said of each item, or returned: nothing, or a list with a result or an exception for each."""
    if returned is not None and (not isinstance(returned, (list, tuple)) or len(returned) != len(batch)):
        found = f"a list of {len(returned)}" if isinstance(returned, (list, tuple)) else type(returned).__name__
        problem = f"A batch handler returns nothing, or a result for each of its {len(batch)} items: this is {found}."
        return [Outcome(error=TypeError(problem))] * len(batch)
    answers = returned if returned is not None else [item.result for item in batch]
    return [_outcome(item, answer) for item, answer in zip(batch, answers, strict=True)]


def _outcome(item: BatchItem, answer: Any) -> Outcome:
    error = item.error or (answer if isinstance(answer, Exception) else None)
    if error is None:
        try:
            result_bytes(answer)
        except (TypeError, ValueError) as unspelt:
            error = unspelt
    return Outcome(error=error) if error is not None else Outcome(answer)
