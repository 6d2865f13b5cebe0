"""A delivery: a claimed message as a block that is left with an ack, or is nacked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from typing import Any

from millrace.client import operations
from millrace.client.errors import BadRequest, CallFailed, ClaimLost
from millrace.client.model import ClaimedMessage, ExtendedClaim, Nacked, VersionedState
from millrace.client.steps import Steps
from millrace.client.transfers import LINK_FROM, LinkedBody
from millrace.client.transport import AsyncSide, BoundCall, Side, Stream, SyncSide
from millrace.handlers.controls import Reject, Retry, Snooze
from millrace.model.clock import system_clock
from millrace.model.strict_json import parse

LEFT = "LeftWithoutAck"


class DeliveryState(Side):
    """What both kinds of delivery hold."""

    message: ClaimedMessage
    finished: bool  #: acked, nacked or released: nothing more happens to it here
    acked: bool  #: finished as done
    lost: bool  #: another worker has it now, or it is being given back: stop working on it
    cancelled: Event  #: set when it is lost, its time is up or somebody cancels it: stop working on it
    state_version: int

    @property
    def attempt(self) -> int:
        """Which run this is, from 1."""
        return self.message.attempt

    @property
    def body(self) -> bytes:
        """The exact bytes, where the claim carried them; read a larger body with `read_body` or `stream_body`."""
        if self.message.body is None:
            raise ValueError(f"The body of {self.message.size} bytes was not sent with the claim: use read_body().")
        return self.message.body

    def json(self) -> Any:
        """The body, read as JSON by the queue's own rule. Raises ValueError."""
        return parse(self.body)

    def renew(self, extended: ExtendedClaim) -> None:
        """Go on with the handle of an extended claim: it tells a late ack of its own from a stale one for longer."""
        self.message = replace(self.message, claim=extended.claim, lease_until=extended.until)

    def _take(self, message: ClaimedMessage) -> None:
        self.message = message
        self.finished = self.acked = self.lost = False
        self.cancelled = Event()
        self.state_version = message.state_version or 0


def _ack(delivery: DeliveryState, result: Any = None) -> Steps[None]:
    """Done; `result` is kept for repeats of the idempotency key."""
    yield from operations.ack(delivery, delivery.message.queue, delivery.message.claim, result)
    delivery.finished = delivery.acked = True


def _nack(
    delivery: DeliveryState, *, error_type: str = "", error: str = "", delay_ms: int | None = None, reject: bool = False
) -> Steps[Nacked]:
    """Failed: retried after its backoff, or a dead letter."""
    nacked = yield from operations.nack(
        delivery,
        delivery.message.queue,
        delivery.message.claim,
        error_type=error_type,
        error=error,
        delay_ms=delay_ms,
        reject=reject,
    )
    delivery.finished = True
    return nacked


def _snooze(delivery: DeliveryState, delay_ms: int = 0) -> Steps[datetime | None]:
    """Given back for a while, charging no attempt: until when, if known."""
    due = yield from operations.snooze(delivery, delivery.message.queue, delivery.message.claim, delay_ms)
    delivery.finished = True
    return due


def _release(delivery: DeliveryState) -> Steps[None]:
    """Given back at once, charging no attempt."""
    yield from operations.release(delivery, delivery.message.queue, delivery.message.claim)
    delivery.finished = True


def _extend(delivery: DeliveryState, lease_ms: int | None = None) -> Steps[datetime]:
    """Held for longer: until when."""
    extended = yield from operations.extend(
        delivery, delivery.message.queue, delivery.message.claim, lease_ms or delivery.message.lease_ms
    )
    delivery.renew(extended)
    return extended.until


def _read_state(delivery: DeliveryState) -> Steps[Any]:
    """The workflow state; None where none was written."""
    state: VersionedState = yield from operations.read_state(delivery, delivery.message.queue, delivery.message.claim)
    delivery.state_version = state.version
    return state.value


def _write_state(delivery: DeliveryState, value: Any) -> Steps[None]:
    """Replace the workflow state that was read or written last. Raises StateConflict."""
    state = yield from operations.write_state(
        delivery, delivery.message.queue, delivery.message.claim, value, delivery.state_version
    )
    delivery.state_version = state.version


def _read_body(delivery: DeliveryState) -> Steps[bytes]:
    """The exact bytes, however large."""
    if delivery.message.body is not None:
        return delivery.message.body
    whole, parts = bytearray(), _stream_body(delivery)
    while (part := (yield from parts.following())) is not None:
        whole += part
    return bytes(whole)


def _stream_body(delivery: DeliveryState) -> DeliveryBody:
    """The exact bytes, part by part; those of a large body come from where it lies."""
    return DeliveryBody(delivery)


@dataclass(slots=True)
class DeliveryBody:
    """Asks for the way to the bytes with the first part."""

    delivery: DeliveryState
    parts: LinkedBody | operations.BodyParts | None = None

    def following(self) -> Steps[bytes | None]:
        if self.parts is None:
            message = self.delivery.message
            self.parts = operations.stream_body(self.delivery, message.queue, message.message_id)
            linked = LinkedBody(self.delivery, message.queue, message.claim, message.size)
            if message.size > LINK_FROM and (yield from linked.ask()):
                self.parts = linked
        return (yield from self.parts.following())


def _read_input(delivery: DeliveryState) -> Steps[Any]:
    """What a handler is given: the queue's mapping of the message, or the message itself. Raises Reject for none."""
    message = delivery.message
    if message.input_given:
        return message.input
    if message.input_omitted:
        try:
            return (yield from operations.read_input(delivery, message.queue, message.claim))
        except BadRequest as error:
            raise Reject(str(error)) from error
    body = yield from _read_body(delivery)
    is_json = message.content_type.split(";")[0].strip().lower().endswith(("/json", "+json"))
    if not is_json:
        return body
    try:
        return parse(body)
    except ValueError as error:
        raise Reject(f"The body is not JSON: {error}") from error


def _leave(delivery: DeliveryState, error: BaseException | None) -> Steps[None]:
    """Leave the block without an ack: as what was raised says; release where the program itself is being ended."""
    if delivery.finished or isinstance(error, ClaimLost):
        return
    try:
        if error is not None and not isinstance(error, Exception):
            yield from _release(delivery)
        elif error is None:
            yield from _nack(delivery, error_type=LEFT, error="The block was left without an ack.")
        else:
            yield from _fail(delivery, error)
    except ClaimLost:
        delivery.lost = True
    except CallFailed:
        if error is None:
            raise


def _fail(delivery: DeliveryState, error: Exception) -> Steps[None]:
    """What a handler raised, told as a worker tells it."""
    name = type(error).__name__
    match error:
        case Snooze():
            now = system_clock()
            yield from _snooze(delivery, error.until_ms(now) - now)
        case Reject():
            yield from _nack(delivery, error_type=name, error=error.reason, reject=True)
        case Retry():
            yield from _nack(delivery, error_type=name, error=str(error), delay_ms=error.after_ms)
        case _:
            yield from _nack(delivery, error_type=name, error=str(error) or name)


class DeliveryCalls:
    """What can be done with a claimed message."""

    ack = BoundCall(_ack)
    nack = BoundCall(_nack)
    release = BoundCall(_release)
    snooze = BoundCall(_snooze)
    extend = BoundCall(_extend)
    read_state = BoundCall(_read_state)
    write_state = BoundCall(_write_state)
    read_body = BoundCall(_read_body)
    read_input = BoundCall(_read_input)
    stream_body = Stream(_stream_body)
    leave = BoundCall(_leave)


class Delivery(SyncSide, DeliveryState, DeliveryCalls):
    """A claimed message, blocking."""

    def __init__(self, client: SyncSide, message: ClaimedMessage) -> None:
        self.account, self.http, self.pause = client.account, client.http, client.pause
        self._take(message)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.leave(error)


class AsyncDelivery(AsyncSide, DeliveryState, DeliveryCalls):
    """A claimed message with asyncio."""

    def __init__(self, client: AsyncSide, message: ClaimedMessage) -> None:
        self.account, self.http = client.account, client.http
        self._take(message)

    async def __aenter__(self) -> AsyncDelivery:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self.leave(error)
