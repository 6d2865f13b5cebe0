"""Claim: take a fenced lease on the best entries of a queue.

Poll, read the messages, then claim: a message never changes once committed, so it can be read before. What was
claimed but may not run (too old, attempts used up, an orphan) is dealt with here; the caller gets what may start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millrace.engine.clear import aged, bury_doomed, lost_run, remove_orphan
from millrace.engine.enqueue import ORPHAN_GRACE_MS
from millrace.engine.finish import release
from millrace.engine.places import keep_within
from millrace.engine.poll import DOOMED_AT_ONCE, EVERYTHING, Filter, PollResult, poll
from millrace.engine.queue import Queue
from millrace.engine.shares import note_losses
from millrace.model.errors import InvalidField, StoreUnavailable
from millrace.model.ids import random_token
from millrace.model.message import Attempt, Entry, Message, Place
from millrace.model.queue_spec import Ordering
from millrace.stores.interface import Applied, Unknown, WriteResult

log = logging.getLogger("millrace")

MAX_CLAIMS = 100
MAX_LEASE_MS = 12 * 3_600_000
#: When to look again for a message whose sender is between its two writes.
COMMIT_SOON_MS = 50
#: Polls at most past entries without a message, each twice as wide as the one before.
LOOKS = 8
OWNER_BYTES = 64
#: A partition that did not answer is left alone for so long: asking it again would keep the others waiting.
SILENT_MS = 2_000
#: Messages among which a probe takes the one that was tried least.
PROBE_CHOICE = 100
SWEEP_PAGE = 25


@dataclass(frozen=True, slots=True)
class Claim:
    """A message under a claim: what a worker gets, and must give back in time."""

    entry: Entry
    message: Message
    lost: Attempt | None = None  #: the run before, when its worker was lost

    @property
    def attempt(self) -> int:
        """Which run this is, from 1."""
        return self.entry.attempts + 1

    def may_start(self, now: int, margin_ms: int = 0) -> bool:
        """A run starts only while its claim is live by the worker's own clock."""
        return self.entry.until - margin_ms > now


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim brought, and when it is worth asking again."""

    claims: list[Claim]
    next_at: int | None = None  #: None: nothing is in sight
    left: bool = False  #: messages that may run were left to rivals: who goes away takes them first


def claim(
    queue: Queue,
    *,
    owner: str,
    limit: int = 1,
    lease_ms: int | None = None,
    only: Filter = EVERYTHING,
    least_tried: bool = False,
    sharing: bool = True,
) -> Claimed:
    """Take up to `limit` messages, best first; none while the queue is paused.

    With `least_tried`, of the best few the ones with the fewest attempts: what a probe of a target takes. `sharing`
    leaves some to rivals for a moment: right for who asks again, wrong for who asks once.

    Costs two queries and one batch read for each partition looked at, and a write unit for each claim.
    """
    lease_ms = _checked(queue, owner, limit, lease_ms)
    partitions = queue.partitions()
    start = int(queue.runtime.chance() * len(partitions))
    claims: list[Claim] = []
    next_at: list[int] = []
    left = False
    failed: StoreUnavailable | None = None
    paused = bool(queue.state().paused_at)
    for pk in partitions[start:] + partitions[:start]:
        ask_at = queue.poll_memory.silent.get(pk, 0)
        if ask_at > queue.now():
            next_at.append(ask_at)
            continue
        try:
            asked = _Asked(limit - len(claims), owner, lease_ms, only, paused, least_tried, sharing)
            claimed = _claim_partition(queue, pk, asked)
        except StoreUnavailable as error:
            # One partition that does not answer hides neither the others nor what was claimed before it.
            failed = error
            queue.poll_memory.silent[pk] = queue.now() + SILENT_MS
            next_at.append(queue.now() + SILENT_MS)
            continue
        claims += claimed.claims
        left = left or claimed.left
        if claimed.next_at is not None:
            next_at.append(claimed.next_at)
        if len(claims) >= limit:
            break
    if failed is not None and not claims:
        raise failed
    return Claimed(claims, min(next_at, default=None), left)


def body_of(queue: Queue, held: Claim) -> bytes:
    """The body exactly as received: from the message, or one blob read."""
    return queue.runtime.bodies.read(held.message)


def _checked(queue: Queue, owner: str, limit: int, lease_ms: int | None) -> int:
    if not 1 <= limit <= MAX_CLAIMS:
        raise InvalidField("limit", f"{limit} is out of range", f"1 to {MAX_CLAIMS}")
    if not 1 <= len(owner.encode()) <= OWNER_BYTES:
        raise InvalidField("owner", f"{owner[:40]!r} does not fit", f"1 to {OWNER_BYTES} bytes")
    lease_ms = queue.spec.lease_ms if lease_ms is None else lease_ms
    if not 1 <= lease_ms <= MAX_LEASE_MS:
        raise InvalidField("lease_ms", f"{lease_ms} is out of range", f"1 to {MAX_LEASE_MS}")
    return lease_ms


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a claim asks of one partition."""

    wanted: int
    owner: str
    lease_ms: int
    only: Filter
    paused: bool
    least_tried: bool
    sharing: bool


def _claim_partition(queue: Queue, pk: str, asked: _Asked) -> Claimed:
    """Claim what may run, then bury what may not, in a pass of its own that cannot hurt what was claimed."""
    width = max(asked.wanted, PROBE_CHOICE) if asked.least_tried else asked.wanted
    for _ in range(LOOKS):
        found, messages = _look(queue, pk, width, asked)
        claims = [] if asked.paused else _claim_found(queue, found, messages, asked)
        cleared = _clear(queue, found, messages, asked.owner, asked.lease_ms, DOOMED_AT_ONCE)
        if claims or not cleared or not queue.spec.ordering.ordered:
            break
        # The head of an ordered queue is gone: what was behind it may start now.
    return Claimed(claims, found.next_at, found.left)


def _look(queue: Queue, pk: str, wanted: int, asked: _Asked) -> tuple[PollResult, dict[str, Message]]:
    """Poll, and read the messages: past entries that have none, while there may be something behind them.

    A sender killed between its two writes leaves such entries at the head for all of the grace; the queue must not
    stand still behind them.
    """
    passed: dict[Place, Entry] = {}
    for look in range(LOOKS):
        width = min(wanted << look, max(wanted, MAX_CLAIMS))
        rival = asked.owner if asked.sharing else ""
        found = poll(queue, pk, width, queue.now(), asked.only, passed.keys(), rival)
        messages = _messages_of(queue, [*found.entries, *passed.values()])
        now = queue.now()
        if any(_committed(entry, messages) for entry in passed.values()):
            # Accepted since it was passed by: what lies behind it may have been sent after it. Look at all anew.
            passed = {place: entry for place, entry in passed.items() if not _committed(entry, messages)}
            found = PollResult(next_at=now)
            continue
        uncommitted = {entry.place: entry for entry in found.entries if not _committed(entry, messages)}
        enough = len(found.entries) - len(uncommitted) >= wanted
        all_seen = len(found.entries) < width and queue.spec.ordering is not Ordering.PER_KEY
        passed |= uncommitted
        for entry in passed.values():
            if _is_unsent(entry, messages, now):
                found.later(now + max(COMMIT_SOON_MS, now - entry.enqueued_at))
        if not uncommitted or enough or all_seen:
            break
    found.orphans = _orphans(passed.values(), messages, queue.now())
    return found, messages


def _orphans(entries: Iterable[Entry], messages: dict[str, Message], now: int) -> dict[Place, Entry]:
    """Entries whose sender cannot still be about to commit them."""
    return {e.place: e for e in entries if not _committed(e, messages) and not _is_unsent(e, messages, now)}


def _messages_of(queue: Queue, entries: Sequence[Entry]) -> dict[str, Message]:
    return queue.store.get_messages([entry.id for entry in entries]) if entries else {}


def _is_unsent(entry: Entry, messages: dict[str, Message], now: int) -> bool:
    """Its sender may still be between its two writes."""
    return not _committed(entry, messages) and entry.enqueued_at + ORPHAN_GRACE_MS > now


def _claim_found(queue: Queue, found: PollResult, messages: dict[str, Message], asked: _Asked) -> list[Claim]:
    """Claim what a poll found and what is committed."""
    now = queue.now()
    seen = [entry for entry in found.entries if _committed(entry, messages)]
    if found.places is not None:
        seen = found.places.within(seen)
    if asked.least_tried and queue.spec.ordering is not Ordering.FIFO:
        seen.sort(key=lambda entry: entry.attempts + entry.lost(now))
    held = _take(queue, seen[: asked.wanted], asked.owner, now, asked.lease_ms)
    if queue.spec.concurrency_per_key is not None and held:
        kept = keep_within(queue, held[0][1].place.pk, [entry for _, entry in held], len(found.passed))
        held = [pair for pair in held if pair[1].token in kept]
    return [Claim(entry, messages[entry.id], lost_run(before, now)) for before, entry in held]


def _clear(
    queue: Queue, found: PollResult, messages: dict[str, Message], owner: str, lease_ms: int, at_once: int
) -> int:
    """Bury what is too old or has used up its attempts, and remove orphans: how many are out of the queue.

    Each by itself, in the order of the queue where it has one. What the store refuses to do now is done by a later
    poll or the sweep.
    """
    now = queue.now()
    doomed = list(found.doomed.values())[:at_once]
    orphans = list(found.orphans.values())[: at_once - len(doomed)]
    cleared = 0
    try:
        messages = {**messages, **_messages_of(queue, [e for e in doomed if e.id not in messages])}
        sent = [entry for entry in doomed if not _is_unsent(entry, messages, now)]
        for before, entry in _take(queue, [*sent, *orphans], owner, now, lease_ms):
            if _committed(entry, messages):
                cleared += bury_doomed(queue, entry, messages[entry.id], lost_run(before, now), now)
            else:
                cleared += remove_orphan(queue, entry)
    except StoreUnavailable as error:
        fields = {"action": "clear_failed", "tenant": queue.tenant, "queue": queue.spec.name, "error": str(error)}
        log.warning("What is to be buried stays until the next poll.", extra=fields)
        found.later(now)
    return cleared


def clear_doomed(queue: Queue, owner: str) -> int:
    """Bury what is too old or has used up its attempts, and remove orphans: how many were met. Claims nothing else."""
    met = 0
    for pk in queue.partitions():
        found = poll(queue, pk, SWEEP_PAGE, queue.now())
        found.doomed |= {entry.place: entry for entry in aged(queue, pk, queue.now())}
        met += len(found.doomed)
        messages = _messages_of(queue, found.entries)
        found.orphans = _orphans(found.entries, messages, queue.now())
        _clear(queue, found, messages, owner, queue.spec.lease_ms, len(found.doomed) + len(found.orphans))
    return met


def _committed(entry: Entry, messages: dict[str, Message]) -> bool:
    """The entry has its own message. One with another nonce, or none, is an orphan and never runs."""
    message = messages.get(entry.id)
    return message is not None and message.nonce == entry.nonce


def _take(queue: Queue, seen: Sequence[Entry], owner: str, now: int, lease_ms: int) -> list[tuple[Entry, Entry]]:
    """Claim each entry as it was seen; pairs of before and after for those that were won."""
    if not seen:
        return []
    wanted = [
        replace(
            entry.claimed(random_token(queue.runtime.entropy), owner, now, lease_ms),
            deliveries=entry.deliveries + 1,
            attempts=entry.attempts + entry.lost(now),
        )
        for entry in seen
    ]
    outcomes = queue.store.claim_entries(wanted, now)
    note_losses(queue.poll_memory, outcomes, wanted, now)
    sure = _resolved(queue, wanted, outcomes)
    won = [isinstance(outcome, Applied) or entry.token in sure for entry, outcome in zip(wanted, outcomes, strict=True)]
    if queue.spec.ordering is Ordering.FIFO and False in won:
        # Somebody else has an earlier one: what comes behind it may not start.
        first_lost = won.index(False)
        release(queue, [entry for entry, mine in zip(wanted[first_lost:], won[first_lost:], strict=True) if mine])
        won[first_lost:] = [False] * (len(won) - first_lost)
    return [(before, entry) for before, entry, mine in zip(seen, wanted, won, strict=True) if mine]


def _resolved(queue: Queue, wanted: Sequence[Entry], outcomes: Sequence[WriteResult[Entry]]) -> set[str]:
    """Tokens of claims that got no answer and were taken all the same: left alone they would run out and be charged."""
    unsure = [entry for entry, outcome in zip(wanted, outcomes, strict=True) if isinstance(outcome, Unknown)]
    if not unsure:
        return set()
    try:
        found = queue.store.get_entries([entry.place for entry in unsure])
    except StoreUnavailable:
        return set()
    return {entry.token for entry in unsure if entry.place in found and found[entry.place].token == entry.token}
