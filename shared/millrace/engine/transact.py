"""Transactions both ways: an ack with the handler's own writes, and an enqueue within the caller's.

One store call sends the queue's items and the app's together. It carries a request token and, in the queue's items,
a nonce or a claim's version: a call without an answer is made again with both, and what had happened is recognised.

    end_with      entry deleted where it holds the claim's token + result + the handler's writes
    accept_with   entry + message where nothing is there yet       + the caller's writes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from millrace.engine.arrival import order_of_arrival
from millrace.engine.credits import Admission
from millrace.engine.drafts import Checked, check
from millrace.engine.enqueue import Receipt, entry_and_message, still_standing
from millrace.engine.filtered import filtered_message
from millrace.engine.finish import Ended
from millrace.engine.queue import Queue, Runtime
from millrace.engine.results import result_of
from millrace.engine.status import MessageStatus
from millrace.history.log import HistoryEvent
from millrace.model.errors import (
    DuplicateMessage,
    InvalidTransaction,
    MillraceError,
    QueueFull,
    StaleClaim,
    StoreUnavailable,
    TransactionRefused,
)
from millrace.model.ids import random_token
from millrace.model.keys import WITHDRAWN
from millrace.model.message import Draft, Entry, Message
from millrace.model.queue_state import COMMIT_WITHIN_MS
from millrace.model.transaction import MAX_ITEMS, AppWrite
from millrace.stores.interface import (
    AcceptStep,
    Applied,
    EndStep,
    StepRefused,
    Store,
    TooLate,
    TransactResult,
    TransactStep,
    Unknown,
    WritesRefused,
)

#: A transaction without an answer is sent again so often, under the same request token.
TRIES = 3


def end_with(queue: Queue, entry: Entry, writes: Sequence[AppWrite], snapshot: bytes | None = None) -> Ended:
    """Ack a claimed message together with writes of the app's own: all of it happens, or nothing does.

    `follow_up` has to be called with what it gives. Repeating one that succeeded succeeds again. Raises StaleClaim
    (nothing changed), TransactionRefused (a condition of the writes did not hold; nothing changed),
    InvalidTransaction, or StoreUnavailable (unknown: the entry is there exactly where nothing happened). Costs
    2 write units for the entry, 2 for each KB of the result, and 2 for each KB of what the app writes.
    """
    epoch = queue.state().epoch
    step = EndStep(entry, result_of(queue, entry, snapshot))
    queue.record(HistoryEvent.ENDING, [entry])
    outcome = _send(queue.store, [step], writes, random_token(queue.runtime.entropy))
    match outcome:
        case Applied():
            queue.record(HistoryEvent.DONE, [entry])
            return Ended(entry, snapshot, epoch, kept=True)
        case StepRefused(entry=current):
            queue.record(HistoryEvent.STALE, [entry])
            raise StaleClaim(entry.id, entry.version, current.version if current else None)
        case WritesRefused(reasons):
            raise TransactionRefused(reasons)
        case Unknown(cause):
            raise cause
        case TooLate():
            raise StoreUnavailable("The transaction was not sent.")


class OnDuplicate(StrEnum):
    """What becomes of a transaction whose message is there already."""

    FAIL = "fail"  #: nothing is written; DuplicateMessage is raised
    SKIP = "skip"  #: the rest is written without it; its receipt says `duplicate`


@dataclass(frozen=True, slots=True)
class Enqueuing:
    """One message of a transaction, as admission hands it over."""

    queue: Queue
    draft: Draft
    filtered: bool = False
    system_key: str = ""
    on_duplicate: OnDuplicate = OnDuplicate.FAIL


@dataclass(slots=True)
class _Part:
    """One message on its way into a transaction."""

    wanted: Enqueuing
    checked: Checked
    admission: Admission | None = None
    step: AcceptStep | None = None  #: None once it is skipped
    receipt: Receipt | None = None


def accept_with(runtime: Runtime, wanted: Sequence[Enqueuing], writes: Sequence[AppWrite]) -> list[Receipt]:
    """Commit messages together with writes of the caller's own: all of it happens, or nothing does.

    A receipt for each message, in their order. Depth is admitted before, and given back where nothing is written.
    Raises, with nothing written: InvalidRequest, QueueFull, TransactionRefused (a condition of the writes did not
    hold), DuplicateMessage (where a duplicate is to fail). Raises StoreUnavailable where the outcome is unknown:
    the ids that it names are there exactly where all of it happened, and the caller's own writes tell where every
    message was skipped as a duplicate.
    Costs twice the units of the items: 2 for an entry, 2 for each KB of a message, 2 for each KB of the writes.
    """
    now = runtime.clock()
    parts = [_Part(one, check(one.queue, one.draft, now, system_key=one.system_key)) for one in wanted]
    _check_size(parts, writes)
    try:
        for part in parts:
            _admit(part, now)
        outcome = _commit(runtime, parts, writes, now)
    except MillraceError:
        _refund(parts)
        raise
    if isinstance(outcome, Unknown):  # it may have happened: what was admitted is left for the sweep to find
        raise StoreUnavailable(f"The transaction got no answer; {_how_to_tell(parts)}.") from outcome.cause
    _record(parts)
    return [_receipt(part) for part in parts]


def _how_to_tell(parts: Sequence[_Part]) -> str:
    ids = ", ".join(part.step.message.id for part in parts if part.step)
    return f"ask for the status of {ids}" if ids else "its messages were there before it, look at its own writes"


def _check_size(parts: Sequence[_Part], writes: Sequence[AppWrite]) -> None:
    items = sum(1 if part.wanted.filtered else 2 for part in parts) + len(writes)
    if items > MAX_ITEMS:
        raise InvalidTransaction(f"{items} items, two for each message: a transaction takes {MAX_ITEMS}.")
    ids = [part.checked.id for part in parts]
    if len(set(ids)) < len(ids):
        raise InvalidTransaction("Two messages of one transaction have the same idempotency key.")


def _admit(part: _Part, now: int) -> None:
    """Take a credit, and an order number where the queue has an order; make the items."""
    queue, checked = part.wanted.queue, part.checked
    if part.wanted.filtered:
        part.step = AcceptStep(filtered_message(queue, checked, now), None)
        return
    admission = queue.runtime.credits.admit(queue.tenant, queue.spec, 1)
    if not admission.count:
        raise QueueFull(queue.spec.name, queue.spec.retention.max_depth)
    part.admission = admission
    order = order_of_arrival(queue, {0: checked})[0]
    if not order:
        raise StoreUnavailable("No order number was given; nothing was written.")
    entry, message = entry_and_message(queue, checked, queue.encode(checked.draft.body, admission), order, now)
    part.step = AcceptStep(message, entry)


def _commit(runtime: Runtime, parts: list[_Part], writes: Sequence[AppWrite], now: int) -> Applied | Unknown:
    """Send it, until it is in or refused for good: a message that has ended, past its window, is replaced."""

    def in_time() -> bool:
        """A credit that is spent later than this may have been found lost, and given to somebody else."""
        return runtime.clock() - now <= COMMIT_WITHIN_MS

    while True:
        steps = [part.step for part in parts if part.step]
        outcome = _send(runtime.store, steps, writes, random_token(runtime.entropy), in_time)
        match outcome:
            case Applied() | Unknown():
                return outcome
            case WritesRefused(reasons):
                raise TransactionRefused(reasons)
            case TooLate():
                raise StoreUnavailable("The table took too long; nothing was written.")
            case StepRefused(position, message=message):
                refused = [part for part in parts if part.step][position]
                _meet(refused, message)


def _meet(part: _Part, current: Message | None) -> None:
    """What is in the place of a message: a duplicate, or one whose place may be taken."""
    step, wanted = part.step, part.wanted
    if step is None or (current is None and not step.replaces):
        raise StoreUnavailable("The place of an entry is taken; nothing was written, repeat it.")
    duplicate = _duplicate(wanted, step, current)
    if duplicate is None:
        part.step = replace(step, replaces=current.nonce if current else "")
        return
    if wanted.on_duplicate is OnDuplicate.FAIL and not wanted.filtered:
        raise DuplicateMessage(step.message.id, duplicate.status.value)
    _refund([part])
    part.step, part.receipt = None, duplicate


def _duplicate(wanted: Enqueuing, step: AcceptStep, current: Message | None) -> Receipt | None:
    """The answer of the message that is there; None where its place may be taken: it has ended, its window is over."""
    if wanted.filtered:
        return _filtered_receipt(step.message, duplicate=True)
    if current is None or current.place.sk == WITHDRAWN:
        return None
    return still_standing(wanted.queue, current, wanted.queue.store.get_records(current.id))


def _send(
    store: Store,
    steps: Sequence[TransactStep],
    writes: Sequence[AppWrite],
    token: str,
    in_time: Callable[[], bool] = lambda: True,
) -> TransactResult:
    """Until there is an answer: what an earlier try did is known by the request token, and by what is there.

    A try for which there is no time any more says nothing of an earlier one without an answer: that stays unknown.
    """
    unknown: Unknown | None = None
    for _ in range(TRIES):
        outcome = store.transact(steps, writes, token, in_time)
        if isinstance(outcome, TooLate):
            return unknown or outcome
        if not isinstance(outcome, Unknown):
            return outcome
        unknown = outcome
    return outcome


def _record(parts: Sequence[_Part]) -> None:
    for part in parts:
        if part.step and part.step.entry:
            part.wanted.queue.record_accepted([(part.step.message, part.step.entry)])


def _refund(parts: Sequence[_Part]) -> None:
    """Give back what was admitted for messages that were surely not written, and their bodies."""
    for part in parts:
        if part.admission:
            queue = part.wanted.queue
            if part.step:
                queue.runtime.bodies.drop(part.step.message.body)
            queue.runtime.credits.refund(queue.tenant, queue.spec, part.admission, 1)
            part.admission = None


def _receipt(part: _Part) -> Receipt:
    if part.receipt or part.step is None:
        return cast("Receipt", part.receipt)
    message, entry = part.step.message, part.step.entry
    if entry is None:
        return _filtered_receipt(message)
    status = MessageStatus.SCHEDULED if entry.due else MessageStatus.READY
    return Receipt(message.id, message.correlation_id, message.idempotency_key, status=status)


def _filtered_receipt(message: Message, *, duplicate: bool = False) -> Receipt:
    return Receipt(
        message.id,
        message.correlation_id,
        message.idempotency_key,
        duplicate=duplicate,
        status=MessageStatus.FILTERED,
    )
