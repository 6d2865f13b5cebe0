"""A claimed message at work: a block that is left with an ack, or is nacked."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from millrace.client import operations
from millrace.client.errors import CallFailed, StaleClaim
from millrace.client.model import Message, Nacked, WorkflowState
from millrace.client.steps import Steps
from millrace.client.transport import AsyncSide, BoundCall, Side, Stream, SyncSide

LEFT = "LeftWithoutAck"


class HeldMessage(Side):
    """What both kinds of delivery know."""

    message: Message
    finished: bool  #: acked, nacked or given back: nothing more happens to it here
    lost: bool  #: a heartbeat said that somebody else has it: stop working on it
    state_version: int

    @property
    def body(self) -> bytes:
        """The exact bytes, where they came along; a larger body is read with `read_body` or `stream_body`."""
        if self.message.body is None:
            raise ValueError(f"The body of {self.message.size} bytes did not come along: use read_body().")
        return self.message.body

    def json(self) -> Any:
        return json.loads(self.body)

    def _take(self, message: Message) -> None:
        self.message = message
        self.finished = self.lost = False
        self.state_version = message.state_version or 0


def _ack(held: HeldMessage, result: Any = None) -> Steps[None]:
    """Done; `result` is kept for repeats of the idempotency key."""
    yield from operations.ack(held, held.message.queue, held.message.claim, result)
    held.finished = True


def _nack(
    held: HeldMessage, *, error_type: str = "", error: str = "", delay_ms: int | None = None, reject: bool = False
) -> Steps[Nacked]:
    """Failed: retried after its backoff, or a dead letter."""
    nacked = yield from operations.nack(
        held,
        held.message.queue,
        held.message.claim,
        error_type=error_type,
        error=error,
        delay_ms=delay_ms,
        reject=reject,
    )
    held.finished = True
    return nacked


def _release(held: HeldMessage) -> Steps[None]:
    """Given back at once, charging no attempt."""
    yield from operations.release(held, held.message.queue, held.message.claim)
    held.finished = True


def _extend(held: HeldMessage, lease_ms: int | None = None) -> Steps[datetime]:
    """Held for longer: until when."""
    return (
        yield from operations.extend(held, held.message.queue, held.message.claim, lease_ms or held.message.lease_ms)
    )


def _read_state(held: HeldMessage) -> Steps[Any]:
    """The workflow state; None where none was written."""
    state: WorkflowState = yield from operations.read_state(held, held.message.queue, held.message.claim)
    held.state_version = state.version
    return state.value


def _write_state(held: HeldMessage, value: Any) -> Steps[None]:
    """Replace the workflow state that was read or written last. Raises StaleState."""
    state = yield from operations.write_state(held, held.message.queue, held.message.claim, value, held.state_version)
    held.state_version = state.version


def _read_body(held: HeldMessage) -> Steps[bytes]:
    """The exact bytes, however large."""
    if held.message.body is not None:
        return held.message.body
    return (yield from operations.read_body(held, held.message.queue, held.message.message_id))


def _stream_body(held: HeldMessage) -> operations.BodyParts:
    """The exact bytes, part by part."""
    return operations.stream_body(held, held.message.queue, held.message.message_id)


def _leave(held: HeldMessage, error: BaseException | None) -> Steps[None]:
    """What leaving the block without an ack means: nacked; given back where the program itself is being ended."""
    if held.finished or isinstance(error, StaleClaim):
        return
    try:
        if error is not None and not isinstance(error, Exception):
            yield from _release(held)
        elif error is None:
            yield from _nack(held, error_type=LEFT, error="The block was left without an ack.")
        else:
            yield from _nack(held, error_type=type(error).__name__, error=str(error))
    except StaleClaim:
        held.lost = True
    except CallFailed:
        if error is None:
            raise


class HeldMessageCalls:
    """What can be done with a claimed message."""

    ack = BoundCall(_ack)
    nack = BoundCall(_nack)
    release = BoundCall(_release)
    extend = BoundCall(_extend)
    read_state = BoundCall(_read_state)
    write_state = BoundCall(_write_state)
    read_body = BoundCall(_read_body)
    stream_body = Stream(_stream_body)
    leave = BoundCall(_leave)


class Delivery(SyncSide, HeldMessage, HeldMessageCalls):
    """A claimed message, blocking."""

    def __init__(self, client: SyncSide, message: Message) -> None:
        self.account, self.http, self.pause = client.account, client.http, client.pause
        self._take(message)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.leave(error)


class AsyncDelivery(AsyncSide, HeldMessage, HeldMessageCalls):
    """A claimed message with asyncio."""

    def __init__(self, client: AsyncSide, message: Message) -> None:
        self.account, self.http = client.account, client.http
        self._take(message)

    async def __aenter__(self) -> AsyncDelivery:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self.leave(error)
