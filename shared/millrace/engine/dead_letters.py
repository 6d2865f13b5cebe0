"""Dead letters: list, inspect, replay, purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millrace.engine.counters import flush, note_dead
from millrace.engine.drafts import RESERVED
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.erase import erase_ended
from millrace.engine.queue import Queue
from millrace.engine.uploads import stored_again
from millrace.model.cursor import Page, filtered_page
from millrace.model.errors import NotFound
from millrace.model.ids import keyed_message_id
from millrace.model.journal import EFFECTS, effect_root
from millrace.model.keys import may_set_priority
from millrace.model.message import EVERY_DEAD_LETTER, DeadLetter, DeadLetterFilter, Draft, Message
from millrace.model.queue_spec import MAX_BODY_BYTES


def list_dead_letters(
    queue: Queue,
    *,
    only: DeadLetterFilter = EVERY_DEAD_LETTER,
    limit: int = 50,
    cursor: str | None = None,
    newest_first: bool = True,
) -> Page[DeadLetter]:
    """A page of the queue's dead letters, newest first unless asked otherwise."""
    name = queue.spec.name

    def read(position: str | None) -> Page[DeadLetter]:
        after, upto = f"{only.failed_from:013d}", f"{only.failed_before:013d}"
        if position is not None:
            after, upto = (after, position) if newest_first else (position, upto)
        return queue.store.read_dead_letters(
            queue.tenant, name, after, upto, min(limit, 100), newest_first=newest_first
        )

    def keep(dead_letter: DeadLetter) -> bool:
        return only.matches(dead_letter) and dead_letter.ttl * 1000 > queue.now()

    scope = f"dead#{queue.tenant}#{name}#{'new' if newest_first else 'old'}"
    return filtered_page(scope, read, keep, limit=limit, cursor=cursor)


def get_dead_letter(queue: Queue, dead_letter_id: str) -> DeadLetter:
    """One dead letter by its id (`failed_at#message_id`)."""
    dead_letter = queue.store.get_dead_letter(queue.tenant, queue.spec.name, dead_letter_id)
    if dead_letter is None:
        raise NotFound("dead letter", dead_letter_id)
    return dead_letter


def replay(queue: Queue, dead_letter: DeadLetter, job: str) -> Receipt:
    """Enqueue a dead letter again, as a new message that points to its origin and keeps its correlation id.

    Once for each `job`, however often it is called or whatever crashes in between: the new message's id comes from
    the dead letter and the job.
    """
    if dead_letter.replay_job == job:
        message = dead_letter.message
        return Receipt(dead_letter.replayed_as, message.correlation_id, message.idempotency_key, duplicate=True)
    message, stored = dead_letter.message, None
    if message.body.size > MAX_BODY_BYTES and queue.runtime.uploads.alone(message.body):
        stored = stored_again(message)  # copied where it lies: it may be larger than this process
    draft = replay_draft(queue, dead_letter, b"" if stored else queue.runtime.bodies.read(message))
    draft = replace(draft, stored=stored)
    receipt = enqueue(queue, draft, system_key=replay_key(dead_letter, job))
    note_replay(queue, replace(dead_letter, replayed_at=queue.now(), replayed_as=receipt.message_id, replay_job=job))
    return receipt


def note_replay(queue: Queue, dead_letter: DeadLetter) -> None:
    """Write on a dead letter what it was replayed as; the first time it leaves the queue's count of dead letters."""
    if queue.store.mark_replayed(dead_letter):
        note_dead(queue, dead_letter.failed_at, -1)


def replay_draft(queue: Queue, dead_letter: DeadLetter, body: bytes) -> Draft:
    """What a replay hands in: the message as it was, with a pointer to it."""
    return Draft(
        body,
        content_type=dead_letter.message.content_type,
        headers={**dead_letter.message.headers, EFFECTS: _root(dead_letter.message)},
        key=dead_letter.key,
        priority=dead_letter.priority if may_set_priority(queue.spec.ordering) else None,
        project=dead_letter.project,
        labels=dead_letter.labels,
        correlation_id=dead_letter.message.correlation_id,
        source=dead_letter.message.source,
        origin=dead_letter.message.id,
    )


def _root(message: Message) -> str:
    return effect_root(message.id, message.received_at, message.headers)


def mark_replays_in_doubt(queue: Queue, dead_letters: Sequence[DeadLetter], job: str) -> list[DeadLetter]:
    """The dead letters, marked where `job` has replayed them already and died before it could mark them.

    Their new message shows it, however short the queue's idempotency window is: one batch get for up to 100.
    """
    ids = {
        dead_letter.sk: keyed_message_id(queue.tenant, queue.spec.name, replay_key(dead_letter, job))
        for dead_letter in dead_letters
    }
    unmarked = [dead_letter for dead_letter in dead_letters if dead_letter.replay_job != job]
    existing = queue.store.get_messages([ids[dead_letter.sk] for dead_letter in unmarked]) if unmarked else {}
    marked = []
    for dead_letter in dead_letters:
        message = existing.get(ids[dead_letter.sk]) if dead_letter.replay_job != job else None
        if message is not None:
            dead_letter = replace(dead_letter, replayed_at=message.received_at, replayed_as=message.id, replay_job=job)
            note_replay(queue, dead_letter)
        marked.append(dead_letter)
    return marked


def replay_key(dead_letter: DeadLetter, job: str) -> str:
    """The idempotency key of a dead letter's replay by one job."""
    return f"{RESERVED}replay{RESERVED}{dead_letter.sk}{RESERVED}{job}"


def message_replay_key(message_id: str, received_at: int, dead_letter: str, job: str) -> str:
    """The idempotency key of a message's replay by one job: a dead letter's own where it died (`dead_letter`), else one
    of this acceptance of its id.
    """
    ended = dead_letter or f"done{RESERVED}{received_at:013d}#{message_id}"
    return f"{RESERVED}replay{RESERVED}{ended}{RESERVED}{job}"


def purge_dead_letter(queue: Queue, dead_letter_id: str) -> None:
    """Erase a dead letter and its message. Repeated after a crash it finishes what is left."""
    if not delete_dead_letter(queue, get_dead_letter(queue, dead_letter_id)):
        raise NotFound("dead letter", dead_letter_id)
    flush(queue)


def delete_dead_letter(queue: Queue, dead_letter: DeadLetter) -> bool:
    """Erase a dead letter's message, then the dead letter; False where that is gone already.

    In this order, since it is by the dead letter that a repeat finds what a crash left. One that was replayed is not
    counted any more.
    """
    erase_ended(queue, dead_letter.message, queue.store.get_records(dead_letter.message.id), done=False)
    current: DeadLetter | None = dead_letter
    while current is not None:
        if queue.store.delete_dead_letter(current):
            if not current.replayed_at:
                note_dead(queue, current.failed_at, -1)
            return True
        current = queue.store.get_dead_letter(queue.tenant, queue.spec.name, current.sk)  # replayed meanwhile, or gone
    return False
