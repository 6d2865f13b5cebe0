"""Finish: ack, nack, release, extend. Every write carries the claim's token; a stale one changes nothing.

When a failed message is tried again, if at all, is decided by `decide`: pure, with time and chance passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millrace.engine.bury import bury, history_with
from millrace.engine.counters import book_endings, note_failure
from millrace.engine.drafts import due_after
from millrace.engine.queue import Queue
from millrace.engine.results import result_of
from millrace.history.log import HistoryEvent
from millrace.model.clock import Chance
from millrace.model.errors import MillraceError, StaleClaim
from millrace.model.keys import order_of, waiting_place
from millrace.model.message import Attempt, DeadLetterReason, Entry, Message, MessageLocation
from millrace.model.queue_spec import Jitter, RetryPolicy
from millrace.stores.interface import Applied, Refused, WriteResult


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run failed."""

    error_type: str
    error: str


def ack(queue: Queue, entries: Sequence[Entry], results: Sequence[bytes | None] = ()) -> list[MillraceError | None]:
    """Record that claimed messages are done: None for each that is, else why not.

    The deletion of the entry is the commit; the result follows it. Repeating an ack that succeeded succeeds again.
    One write unit each, one more where there is a result to keep, and one for the whole batch.
    """
    epoch = queue.state().epoch
    outcomes = _end(queue, entries)
    snapshots = results or [None] * len(entries)
    follow_up(
        queue,
        [
            Ended(entry, snapshot, epoch)
            for entry, snapshot, outcome in zip(entries, snapshots, outcomes, strict=True)
            if isinstance(outcome, Applied)
        ],
    )
    return _answers(queue, entries, outcomes)


@dataclass(frozen=True, slots=True)
class Ended:
    """A message that is done and out of the queue: its result and the queue's counters follow."""

    entry: Entry
    snapshot: bytes | None
    epoch: int  #: the queue's, as it was seen before the entry was taken out
    kept: bool = False  #: its result was written together with its end


def end(queue: Queue, entry: Entry, snapshot: bytes | None = None) -> Ended | None:
    """The first half of an ack, after which the next message of an ordered queue may start.

    `follow_up` has to be called with what it gives: None where an earlier try had ended it. Raises what an ack answers.
    """
    epoch = queue.state().epoch
    outcomes = _end(queue, [entry])
    (problem,) = _answers(queue, [entry], outcomes)
    if problem is not None:
        raise problem
    return Ended(entry, snapshot, epoch) if isinstance(outcomes[0], Applied) else None


def follow_up(queue: Queue, ended: Sequence[Ended]) -> None:
    """The second half: keep the results, and give the credits back in one write.

    A crash before it loses the snapshots, not the truth; the sweep finds the credits.
    """
    keeps = queue.spec.idempotency.cache_result
    unkept = [one for one in ended if keeps and one.snapshot and not one.kept]
    if unkept:
        queue.store.put_results([result_of(queue, one.entry, one.snapshot) for one in unkept])
    if ended:
        book_endings(queue, min(one.epoch for one in ended), len(ended), done=[one.entry.id for one in ended])


def _end(queue: Queue, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
    queue.record(HistoryEvent.ENDING, entries)
    return queue.store.end_entries(entries)


def _answers(
    queue: Queue, entries: Sequence[Entry], outcomes: Sequence[WriteResult[Entry]]
) -> list[MillraceError | None]:
    answers = [_ack_answer(queue, entry, outcome) for entry, outcome in zip(entries, outcomes, strict=True)]
    _record_answers(queue, HistoryEvent.DONE, entries, answers)
    return answers


def _record_answers(
    queue: Queue, good: HistoryEvent, entries: Sequence[Entry], answers: Sequence[MillraceError | None]
) -> None:
    if queue.runtime.history is not None:
        stale = [isinstance(answer, StaleClaim) for answer in answers]
        queue.record(good, [entry for entry, answer in zip(entries, answers, strict=True) if answer is None])
        queue.record(HistoryEvent.STALE, [entry for entry, refused in zip(entries, stale, strict=True) if refused])


def _ack_answer(queue: Queue, entry: Entry, outcome: WriteResult[Entry]) -> MillraceError | None:
    if isinstance(outcome, Refused) and outcome.current is None:
        return _ended_earlier(queue, entry)
    return failure_of(entry, outcome)


def _ended_earlier(queue: Queue, entry: Entry) -> MillraceError | None:
    """The entry is gone: by this very claim (its answer was lost), or by a later one?

    Its result says by which. Where there is none (nothing to keep, or its worker was killed before writing it) only
    a claim that is still live is sure: nobody else could have ended the message, unless an operator broke the claim.
    """
    records = queue.store.get_records(entry.id)
    location = records.location if records.location and records.location.nonce == entry.nonce else None
    result = records.result if records.result and records.result.nonce == entry.nonce else None
    other_claim = result and result.version != entry.version
    own_claim = result and result.version == entry.version
    taken_out = location and (location.dead_letter or location.purged_at)
    moved = location and location.place not in (None, entry.place)
    given_back = location and max(location.broken, *(run.version for run in location.history), 0) >= entry.version
    nobody_knows = not entry.live(queue.now())
    if own_claim:  # also where it was erased since
        return None
    if taken_out or other_claim or moved or given_back or nobody_knows:
        return StaleClaim(entry.id, entry.version, result.version if other_claim and result else None)
    return None


def failure_of(entry: Entry, outcome: WriteResult[Entry]) -> MillraceError | None:
    """The error, for the holder of a claim, of a write that carried its token; None where it was applied."""
    match outcome:
        case Applied():
            return None
        case Refused(current):
            return StaleClaim(entry.id, entry.version, current.version if current else None)
        case unknown:
            return unknown.cause


def nack(
    queue: Queue,
    entry: Entry,
    message: Message,
    failure: RunFailure,
    *,
    delay_ms: int | None = None,
    lost: Attempt | None = None,
) -> RetryAt | None:
    """Record a failed run: back to the queue after its backoff, or, attempts used up, to the dead letters (None).

    Raises StaleClaim when the claim is no longer the newest. A retry costs six write units, whatever the body.
    """
    now = queue.now()
    if delay_ms is not None:
        due_after(now, delay_ms)
    failed = replace(entry, attempts=entry.attempts + 1)
    run = Attempt(failed.attempts, entry.version, entry.owner, entry.since, now, failure.error_type, failure.error)
    runs = [lost, run] if lost else [run]
    decision = decide(queue.spec.delivery, failed.attempts, now, queue.runtime.chance, delay_ms)
    if isinstance(decision, RetryAt):
        due = move(queue, entry, failed, decision.due, history_with(queue, entry, runs))
        queue.record(HistoryEvent.FAILED, [entry], due=due)
        note_failure(queue)
        return RetryAt(due)
    buried = bury(
        queue,
        failed,
        message,
        DeadLetterReason.EXHAUSTED,
        error_type=failure.error_type,
        error=failure.error,
        attempts=runs,
    )
    if not buried:
        raise stale(queue, entry)
    note_failure(queue)
    return None


def reject(
    queue: Queue,
    entry: Entry,
    message: Message,
    failure: RunFailure,
    lost: Attempt | None = None,
    reason: DeadLetterReason = DeadLetterReason.REJECTED,
) -> None:
    """Straight to the dead letters: the handler says that no retry can help, or the body is lost."""
    failed = replace(entry, attempts=entry.attempts + 1)
    run = Attempt(
        failed.attempts, entry.version, entry.owner, entry.since, queue.now(), failure.error_type, failure.error
    )
    runs = [lost, run] if lost else [run]
    if not bury(
        queue,
        failed,
        message,
        reason,
        error_type=failure.error_type,
        error=failure.error,
        attempts=runs,
    ):
        raise stale(queue, entry)


def move(queue: Queue, entry: Entry, changed: Entry, due: int, history: tuple[Attempt, ...]) -> int:
    """Give a claimed entry back to wait until `due`, but no longer than it is kept: the time when it is due.

    What waited beyond its retention would never be met as too old, and TTL could take its message away before. In an
    ordered queue it waits in place, and keeps blocking.
    """
    due = min(due, entry.expires_at)
    place = entry.place
    if not queue.spec.ordering.ordered:
        place = waiting_place(entry.place.pk, due, order_of(entry.place))
    new = replace(changed.unclaimed(), place=place, due=due)
    ttl = queue.spec.location_ttl(entry.enqueued_at)
    location = MessageLocation(entry.id, entry.nonce, place, ttl, history=history)
    error = failure_of(entry, queue.store.move_entry(entry, new, location))
    if isinstance(error, StaleClaim):
        queue.record(HistoryEvent.STALE, [entry])
    if error:
        raise error
    return due


def release(queue: Queue, entries: Sequence[Entry]) -> list[MillraceError | None]:
    """Give claimed messages back at once, charging no attempt. One write unit each."""
    outcomes = queue.store.hold_entries([entry.unclaimed() for entry in entries], [entry.token for entry in entries])
    answers = [failure_of(entry, outcome) for entry, outcome in zip(entries, outcomes, strict=True)]
    _record_answers(queue, HistoryEvent.RELEASED, entries, answers)
    return answers


def snooze(queue: Queue, entry: Entry, until: int) -> int:
    """Give a claimed message back until a time, charging no attempt: when it is due."""
    due_after(queue.now(), until - queue.now(), "until")
    due = move(queue, entry, entry, until, history_with(queue, entry, ()))
    queue.record(HistoryEvent.RELEASED, [entry], due=due)
    return due


def extend(queue: Queue, entries: Sequence[Entry], lease_ms: int | None = None) -> list[Entry | MillraceError]:
    """Heartbeat: the claims with a new end, or why not. One write unit each."""
    until = queue.now() + (queue.spec.lease_ms if lease_ms is None else lease_ms)
    extended = [replace(entry, until=until) for entry in entries]
    outcomes = queue.store.hold_entries(extended, [entry.token for entry in entries])
    return [
        failure_of(entry, outcome) or longer for entry, longer, outcome in zip(entries, extended, outcomes, strict=True)
    ]


def stale(queue: Queue, entry: Entry) -> StaleClaim:
    """The error for a claim that lost its entry, naming the current version."""
    current = queue.store.get_entry(entry.place)
    return StaleClaim(entry.id, entry.version, current.version if current else None)


@dataclass(frozen=True, slots=True)
class RetryAt:
    due: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Its attempts are used up."""


def backoff_cap(delivery: RetryPolicy, attempt: int) -> int:
    """The longest wait after failed attempt number `attempt`: initial × 2^(attempt-1), capped."""
    doublings = min(attempt - 1, 40)
    return min(delivery.initial_backoff_ms << doublings, delivery.max_backoff_ms)


def decide(
    delivery: RetryPolicy, attempts: int, now: int, chance: Chance, delay_ms: int | None = None
) -> RetryAt | GiveUp:
    """After `attempts` failed runs: when to try again. A handler may name its own delay."""
    if attempts >= delivery.max_attempts:
        return GiveUp()
    if delay_ms is not None:
        return RetryAt(now + delay_ms)
    cap = backoff_cap(delivery, attempts)
    wait = int(chance() * (cap + 1)) if delivery.jitter is Jitter.FULL else cap
    return RetryAt(now + wait)
