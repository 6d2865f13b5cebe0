"""Enqueue: two single-item writes, no transaction.

1. The entry is put, 2. the message is put under its id: that second write is the commit. A crash in between leaves
an entry without its message, which never runs and is removed after `ORPHAN_GRACE_MS` by whoever meets it; so
nothing that was accepted is lost, and nothing runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millrace.engine.arrival import order_of_arrival
from millrace.engine.credits import Admission
from millrace.engine.drafts import Checked, check
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, MessageView, locate
from millrace.model.errors import BodyLost, MillraceError, QueueFull, StoreUnavailable, UploadMissing
from millrace.model.keys import WITHDRAWN, ready_place, waiting_place
from millrace.model.message import Body, Draft, Entry, Message, Records, Result
from millrace.model.queue_state import COMMIT_WITHIN_MS
from millrace.model.values import dataclass
from millrace.stores.interface import Applied, Refused

#: An entry without its message is left alone for this long: longer than any sender can live.
ORPHAN_GRACE_MS = 5 * 60_000
#: From this size on, as stored, a key is looked up before anything is written: a refused write costs its whole size,
#: the look a fifth of a write unit.
LOOK_FROM = 8 * 1024
#: The window of a key that is used once.
FOREVER = 9_999_999_999_999


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the sender gets: the message's id, and how it stands when it was there before."""

    message_id: str
    correlation_id: str
    idempotency_key: str
    duplicate: bool = False
    status: MessageStatus = MessageStatus.READY
    result: bytes | None = None  #: what a finished message gave, for a repeat of its key
    encrypted_result: Result | None = None  #: the same of an encrypted queue, for who may read it: `read_result`
    existing: Message | None = None  #: the message that a duplicate met


@dataclass(frozen=True, slots=True)
class _Pair:
    """An entry and its message on their way into the store."""

    position: int
    admission: Admission  #: of all that came with it
    entry: Entry
    message: Message


def enqueue(queue: Queue, draft: Draft, *, system_key: str = "") -> Receipt:
    """Accept one message: once this returns it will end as done or as a dead letter.

    Raises InvalidRequest (nothing written), QueueFull (nothing written) or StoreUnavailable (outcome unknown;
    repeat it with the same idempotency key). Costs one write unit for the entry and one for each KB of the message.
    """
    (answer,) = enqueue_all(queue, [draft], [system_key])
    if isinstance(answer, MillraceError):
        raise answer
    return answer


def enqueue_all(
    queue: Queue, drafts: Sequence[Draft], system_keys: Sequence[str] = ()
) -> list[Receipt | MillraceError]:
    """Accept many: a receipt or an error for each, in their order.

    `system_keys` are idempotency keys that the queue itself made, one for each draft.
    """
    now = queue.now()
    found: list[Checked | MillraceError] = []
    for position, draft in enumerate(drafts):
        try:
            found.append(check(queue, draft, now, system_key=system_keys[position] if system_keys else ""))
        except MillraceError as error:
            found.append(error)
    return enqueue_checked(queue, found, now)


def enqueue_checked(queue: Queue, items: Sequence[Checked | MillraceError], now: int) -> list[Receipt | MillraceError]:
    """The same for drafts that `check` has seen already, or refused.

    A checked draft may be handed in once: it carries the nonce of one acceptance, and another try needs another.
    """
    answers: dict[int, Receipt | MillraceError] = {}
    checked: dict[int, Checked] = {}
    first_of: dict[str, int] = {}
    repeats: dict[int, int] = {}
    for position, item in enumerate(items):
        if isinstance(item, MillraceError):
            answers[position] = item
        elif item.id in first_of:
            repeats[position] = first_of[item.id]
        else:
            first_of[item.id] = position
            checked[position] = item
    pairs = _admit(queue, checked, now, answers)
    pairs = _put_entries(queue, pairs, answers)
    _commit(queue, pairs, answers)
    for position, first in repeats.items():
        answers[position] = _repeat_of(answers[first])
    return [answers[position] for position in range(len(items))]


def _repeat_of(answer: Receipt | MillraceError) -> Receipt | MillraceError:
    return answer if isinstance(answer, MillraceError) else replace(answer, duplicate=True)


def _admit(
    queue: Queue, checked: dict[int, Checked], now: int, answers: dict[int, Receipt | MillraceError]
) -> list[_Pair]:
    """Spend a credit for each, in their order; the rest is refused for want of room."""
    if not checked:
        return []
    spec = queue.spec
    admission = queue.runtime.credits.admit(queue.tenant, spec, len(checked))
    admitted = dict(list(checked.items())[: admission.count])
    for position in list(checked)[admission.count :]:
        answers[position] = QueueFull(spec.name, spec.retention.max_depth)
    orders = order_of_arrival(queue, admitted)
    pairs = []
    for position, item in admitted.items():
        try:
            body = Body() if item.draft.stored else queue.encode(item.draft.body, admission)
            known = _known(queue, item, body)
            if known is None:
                order = orders[position]
                if not order:
                    raise StoreUnavailable("No order number was given; nothing was accepted.")
                pairs.append(_Pair(position, admission, *entry_and_message(queue, item, body, order, now)))
                continue
            answers[position] = known
        except (BodyLost, StoreUnavailable, UploadMissing) as error:
            answers[position] = error
        queue.runtime.credits.refund(queue.tenant, spec, admission, 1)
    return pairs


def _known(queue: Queue, item: Checked, body: Body) -> Receipt | None:
    """The answer to a repeat of a large message, by reading what is there: one query, and no write.

    What it does not find may be committed a moment later: the conditional write of the message tells. A bulk run
    reads its keys by the hundred.
    """
    small = len(body.data) < LOOK_FROM and item.draft.stored is None
    if not item.keyed or item.draft.run or small:
        return None
    records = queue.store.get_records(item.id)
    if records.message is None:
        return None
    answer = still_standing(queue, records.message, records)
    if answer is not None and not answer.status.ended:
        queue.record_accepted([(records.message, None)])
    return answer


def entry_and_message(queue: Queue, item: Checked, body: Body, order: str, now: int) -> tuple[Entry, Message]:
    """What is written for an admitted message; a large body is put into its blob. Raises KeyUnavailable."""
    spec, draft = queue.spec, item.draft
    ordered = spec.ordering.ordered
    place = ready_place(
        queue.tenant,
        spec,
        key=draft.key,
        message_id=item.id,
        priority=0 if ordered else item.priority,
        order=order,
    )
    if item.due and not ordered:
        place = waiting_place(place.pk, item.due, order)
    entry = Entry(
        place,
        id=item.id,
        nonce=item.nonce,
        enqueued_at=now,
        expires_at=now + spec.retention.max_age_seconds * 1000,
        priority=item.priority,
        correlation_id=item.correlation_id,
        key=draft.key,
        project=item.project,
        labels=item.labels,
        due=item.due,
    )
    message = Message(
        id=item.id,
        tenant=queue.tenant,
        queue=spec.name,
        nonce=item.nonce,
        place=place,
        body=_kept(queue, item, body, now),
        content_type=draft.content_type,
        received_at=now,
        dedupe_until=FOREVER if draft.once else now + spec.idempotency.window_seconds * 1000,
        ttl=spec.message_ttl(now),
        headers=draft.headers,
        correlation_id=item.correlation_id,
        idempotency_key=draft.idempotency_key or "",
        source=draft.source,
        origin=draft.origin,
        run=draft.run,
        key=draft.key,
        project=item.project,
    )
    return entry, message


def body_folder(queue: Queue, item: Checked) -> str:
    """Where the blob of this acceptance lies, and no other's: without the nonce a repeat would take it away."""
    return f"{queue.tenant}/{queue.spec.name}/{item.id}/{item.nonce}"


def _kept(queue: Queue, item: Checked, body: Body, now: int) -> Body:
    folder = body_folder(queue, item)
    if item.draft.stored is not None:
        return queue.runtime.uploads.keep(item.draft.stored, folder, now)
    if queue.key:
        encrypt = queue.runtime.encryption.encrypt_body
        body = encrypt(queue.key, body, queue.tenant, queue.spec.name, item.id, item.nonce)
    return queue.runtime.bodies.keep(body, item.draft.body, folder)


def _put_entries(queue: Queue, pairs: list[_Pair], answers: dict[int, Receipt | MillraceError]) -> list[_Pair]:
    """The first write. What was not surely written is given up: without its message it can never run."""
    written = []
    for pair, outcome in zip(pairs, queue.store.put_entries([pair.entry for pair in pairs]), strict=True):
        if isinstance(outcome, Applied):
            written.append(pair)
        else:
            answers[pair.position] = StoreUnavailable("The entry could not be written; nothing was accepted.")
            queue.runtime.bodies.drop(pair.message.body)
    late = queue.now() - COMMIT_WITHIN_MS
    if any(pair.entry.enqueued_at < late for pair in written):
        for pair in written:
            answers[pair.position] = StoreUnavailable("The table took too long; nothing was accepted.")
        _withdraw(queue, written)
        return []
    return written


def _commit(queue: Queue, pairs: list[_Pair], answers: dict[int, Receipt | MillraceError]) -> None:
    """The second write: accepted, or a repeat of a message that is there already."""
    repeated: list[_Pair] = []
    accepted: list[tuple[Message, Entry | None]] = []
    for pair, outcome in zip(pairs, queue.store.put_messages([pair.message for pair in pairs]), strict=True):
        if isinstance(outcome, Applied):
            answers[pair.position] = _accepted(pair)
            accepted.append((pair.message, pair.entry))
        elif isinstance(outcome, Refused) and outcome.current is not None:
            try:
                answer = _answer_repeat(queue, pair, outcome.current)
            except StoreUnavailable as error:
                answers[pair.position] = error
                continue
            answers[pair.position] = answer
            if answer.duplicate:
                repeated.append(pair)
            if not answer.status.ended:
                accepted.append((outcome.current, None) if answer.duplicate else (pair.message, pair.entry))
        else:
            answers[pair.position] = StoreUnavailable("The commit got no answer; repeat it with the same key.")
    queue.record_accepted(accepted)
    _withdraw(queue, repeated)


def _accepted(pair: _Pair) -> Receipt:
    status = MessageStatus.SCHEDULED if pair.entry.due else MessageStatus.READY
    return Receipt(pair.message.id, pair.message.correlation_id, pair.message.idempotency_key, status=status)


def _answer_repeat(queue: Queue, pair: _Pair, current: Message) -> Receipt:
    """Answer from the message that is there, or take its place when it has ended and its window is over.

    A message still queued is a duplicate however old it is: replacing it would run the work twice. So is one that
    an earlier try of the same bulk run wrote. A bulk run asks for no status: its duplicates come by the thousand.
    """
    while True:
        now = queue.now()
        run = pair.message.run
        if run and (current.run == run or now < current.dedupe_until):
            return Receipt(
                current.id, current.correlation_id, current.idempotency_key, duplicate=True, existing=current
            )
        if current.place.sk != WITHDRAWN:
            answer = still_standing(queue, current, queue.store.get_records(current.id))
            if answer is not None:
                return answer
        outcome = queue.store.replace_message(pair.message, current.nonce)
        if isinstance(outcome, Applied):
            return _accepted(pair)
        if not isinstance(outcome, Refused):
            raise StoreUnavailable("The commit got no answer; repeat it with the same key.")
        if outcome.current is None:
            raise StoreUnavailable("The sender was paused for too long; nothing was accepted, repeat it.")
        current = outcome.current


def still_standing(queue: Queue, message: Message, records: Records) -> Receipt | None:
    """The answer to a repeat of this message; None where it has ended and its window is over."""
    now = queue.now()
    found = locate(queue.store, message, records, now)
    return _duplicate(found) if now < message.dedupe_until or not found.status.ended else None


def _duplicate(found: MessageView) -> Receipt:
    message, kept = found.message, found.result
    return Receipt(
        message.id,
        message.correlation_id,
        message.idempotency_key,
        duplicate=True,
        status=found.status,
        result=kept.snapshot if kept and not kept.encrypted else None,
        encrypted_result=kept if kept and kept.encrypted else None,
        existing=message,
    )


def _withdraw(queue: Queue, pairs: list[_Pair]) -> None:
    """Remove entries and bodies that will have no message, and take their credits back."""
    if not pairs:
        return
    for pair in pairs:
        queue.runtime.bodies.drop(pair.message.body)
    outcomes = queue.store.drop_entries([pair.entry for pair in pairs])
    gone = sum(isinstance(outcome, Applied) for outcome in outcomes)
    queue.runtime.credits.refund(queue.tenant, queue.spec, pairs[0].admission, gone)
