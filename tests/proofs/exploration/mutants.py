"""Deliberate breakages of the protocol, one guard taken out each. The explorer has to catch every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import millrace.engine.bodies
import millrace.engine.claim
import millrace.engine.enqueue
import millrace.engine.erase
import millrace.engine.finish
import millrace.engine.places
import millrace.engine.poll
import millrace.engine.shares
import millrace.engine.status
import millrace.engine.sweep
import millrace.model.queue_state
import tests.proofs.exploration.scenarios
from millrace.engine.clear import remove_orphan
from millrace.engine.counters import book_endings
from millrace.engine.dictionaries import Dictionaries
from millrace.engine.end_in_order import end_in_order
from millrace.engine.status import MessageStatus
from millrace.model.dictionary import Dictionary, StoredDictionary
from millrace.model.message import Body, Draft, Entry, Message, MessageLocation, Place
from millrace.model.queue_state import CounterDelta, QueueState
from millrace.stores.interface import APPLIED, Applied, Refused, WriteResult
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    breaks: str  #: which guard is gone
    scenario: str  #: where it shows
    patch: Patch


def _ack_without_token(patch: pytest.MonkeyPatch) -> None:
    def unfenced(self: MemoryStore, place: Place, token: str, change: Callable[[Entry], None]) -> WriteResult[Entry]:
        current = self.entries.get(place)
        if current is None:
            return Refused(current)
        change(current)
        return APPLIED

    patch.setattr(MemoryStore, "_fenced", unfenced)


def _packed_after_its_last_use(patch: pytest.MonkeyPatch) -> None:
    def to_pack(self: Dictionaries, tenant: str, queue: str, name: str) -> Dictionary:
        return self.to_unpack(tenant, queue, name)

    patch.setattr(Dictionaries, "to_pack", to_pack)


def _new_dictionary_in_the_old_ones_place(patch: pytest.MonkeyPatch) -> None:
    put_dictionary = MemoryStore.put_dictionary

    def replacing(self: MemoryStore, tenant: str, queue: str, dictionary: StoredDictionary) -> None:
        for key in [key for key in self.dictionaries if key[:2] == (tenant, queue)]:
            del self.dictionaries[key]
        put_dictionary(self, tenant, queue, dictionary)

    patch.setattr(MemoryStore, "put_dictionary", replacing)


def _claim_without_version(patch: pytest.MonkeyPatch) -> None:
    def claim_entry(self: MemoryStore, entry: Entry, now: int) -> WriteResult[Entry]:
        current = self.entries.get(entry.place)
        if current is None or current.until > now:
            return Refused(current)
        self.entries[entry.place] = entry
        return APPLIED

    patch.setattr(MemoryStore, "_claim_entry", claim_entry)


def _claim_over_a_live_lease(patch: pytest.MonkeyPatch) -> None:
    def claim_entry(self: MemoryStore, entry: Entry, now: int) -> WriteResult[Entry]:
        current = self.entries.get(entry.place)
        if current is None or current.version != entry.version - 1:
            return Refused(current)
        self.entries[entry.place] = entry
        return APPLIED

    patch.setattr(MemoryStore, "_claim_entry", claim_entry)
    patch.setattr(Entry, "live", lambda _self, _now: False)


def _no_nonce_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.claim, "_committed", lambda entry, messages: entry.id in messages)


def _no_grace_for_orphans(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.claim, "ORPHAN_GRACE_MS", 0)


def _message_before_entry(patch: pytest.MonkeyPatch) -> None:
    put_entries, commit = millrace.engine.enqueue._put_entries, millrace.engine.enqueue._commit

    def commit_first(queue: Any, pairs: Any, answers: Any) -> Any:
        commit(queue, pairs, answers)
        return pairs

    def entries_afterwards(queue: Any, pairs: Any, answers: Any) -> None:
        fresh = [pair for pair in pairs if not getattr(answers[pair.position], "duplicate", False)]
        put_entries(queue, fresh, answers)

    patch.setattr(millrace.engine.enqueue, "_put_entries", commit_first)
    patch.setattr(millrace.engine.enqueue, "_commit", entries_afterwards)


def _replaced_while_queued(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageStatus, "ended", property(lambda _self: True))


def _missing_entry_believed_at_once(patch: pytest.MonkeyPatch) -> None:
    """The place is not read again after an entry was not found there."""
    locate = millrace.engine.status.locate

    class Blind:
        def __init__(self, store: Any, location: MessageLocation | None) -> None:
            self._store, self._location = store, location

        def __getattr__(self, name: str) -> Any:
            if name == "get_location":
                return lambda _id: self._location
            return getattr(self._store, name)

    def trusting(store: Any, message: Message, records: Any, now: int) -> Any:
        return locate(Blind(store, records.location), message, records, now)

    patch.setattr(millrace.engine.enqueue, "locate", trusting)
    patch.setattr(millrace.engine.status, "locate", trusting)


def _look_ignores_the_window(patch: pytest.MonkeyPatch) -> None:
    """A large message that is there is the answer to every repeat, for ever."""

    def known(queue: Any, item: Any, body: Any) -> Any:
        records = queue.store.get_records(item.id)
        found = records.message and millrace.engine.status.locate(queue.store, records.message, records, queue.now())
        return millrace.engine.enqueue._duplicate(found) if found else None

    patch.setattr(millrace.engine.enqueue, "_known", known)


def _look_is_the_dedupe(patch: pytest.MonkeyPatch) -> None:
    """What a look did not find is written without a condition."""

    def put_messages(self: MemoryStore, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        for message in messages:
            self.messages[message.id] = message
        return [APPLIED] * len(messages)

    patch.setattr(MemoryStore, "put_messages", put_messages)


def _acceptances_share_a_blob(patch: pytest.MonkeyPatch) -> None:
    """A repeat takes back the blob of the message that it repeats."""
    patch.setattr(millrace.engine.enqueue, "body_folder", lambda queue, item: f"{queue.tenant}/{item.id}")


def _erased_without_a_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.erase, "_seal", lambda *_: None)


def _erased_without_its_bodys_name(patch: pytest.MonkeyPatch) -> None:
    """A crash before the body is deleted leaves it, since nothing names it."""
    sent = millrace.engine.erase._applied

    def forgetful(queue: Any, erasure: Any) -> bool:
        body, husk = erasure.husk.body, replace(erasure.husk, body=Body())
        applied = sent(queue, replace(erasure, husk=husk))
        if applied:
            queue.runtime.bodies.erase(body)
        return applied

    patch.setattr(millrace.engine.erase, "_applied", forgetful)


def _blob_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    keep, commit = millrace.engine.bodies.Bodies.keep, millrace.engine.enqueue._commit
    waiting: list[Callable[[], Any]] = []

    def keep_later(self: Any, body: Any, data: bytes, folder: str) -> Any:
        blobs, self._blobs = self._blobs, MemoryBlobs()
        kept = keep(self, body, data, folder)
        self._blobs = blobs
        waiting.append(lambda: keep(self, body, data, folder))
        return kept

    def commit_first(queue: Any, pairs: Any, answers: Any) -> None:
        commit(queue, pairs, answers)
        while waiting:
            waiting.pop()()

    patch.setattr(millrace.engine.bodies.Bodies, "keep", keep_later)
    patch.setattr(millrace.engine.enqueue, "_commit", commit_first)


def _retry_copies_the_entry(patch: pytest.MonkeyPatch) -> None:
    def move_entry(self: MemoryStore, old: Entry, new: Entry, location: MessageLocation) -> WriteResult[Entry]:
        def copy(current: Entry) -> None:
            self.entries[current.place] = replace(current, token="", until=0)
            self.entries[new.place] = new
            self.location[new.id] = location

        return self._fenced(old.place, old.token, copy)

    patch.setattr(MemoryStore, "move_entry", move_entry)


def _starts_without_looking_at_its_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.claim.Claim, "may_start", lambda _self, _now, _margin=0: True)


def _endings_counted_after_mending(patch: pytest.MonkeyPatch) -> None:
    settle = MemoryStore.settle

    def any_epoch(self: MemoryStore, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        epoch = self.get_queue_state(tenant, queue).epoch
        return settle(self, tenant, queue, replace(delta, epoch=epoch))

    patch.setattr(MemoryStore, "settle", any_epoch)


def _mending_forgets_granted_credits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueState, "spendable_grants", lambda _self, _now: 0)


def _mending_ignores_endings_meanwhile(patch: pytest.MonkeyPatch) -> None:
    def repair_depth(self: MemoryStore, seen: QueueState, surplus: int, now: int) -> bool:
        state = self.get_queue_state(seen.tenant, seen.queue)
        self._keep(replace(state, depth=state.depth - surplus, epoch=state.epoch + 1), ())
        return True

    patch.setattr(MemoryStore, "repair_depth", repair_depth)


def _credits_given_twice(patch: pytest.MonkeyPatch) -> None:
    settle = MemoryStore.settle

    def twice(self: MemoryStore, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        return settle(self, tenant, queue, replace(delta, ended=2 * delta.ended))

    patch.setattr(MemoryStore, "settle", twice)


def _credits_over_the_limit(patch: pytest.MonkeyPatch) -> None:
    take_credits = MemoryStore.take_credits

    def one_more(self: MemoryStore, tenant: str, queue: str, take: Any) -> Any:
        return take_credits(self, tenant, queue, replace(take, max_depth=take.max_depth + 1))

    patch.setattr(MemoryStore, "take_credits", one_more)


def _places_without_a_second_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        millrace.engine.claim, "keep_within", lambda _queue, _pk, taken, _passed: {entry.token for entry in taken}
    )


def _the_first_stays(patch: pytest.MonkeyPatch) -> None:
    """Only those ahead count: what lies behind is taken to give back."""
    heads = millrace.engine.places._heads

    def ahead(queue: Any, pk: str, groups: list[str], width: int) -> dict[str, list[Entry]]:
        found = heads(queue, pk, groups, width)
        return {group: [entry for entry in entries if entry.live(queue.now())][:1] for group, entries in found.items()}

    patch.setattr(millrace.engine.places, "_heads", ahead)


def _a_place_too_many(patch: pytest.MonkeyPatch) -> None:
    def more(self: Any, entries: Any, *, spare: bool = False) -> list[Entry]:
        return list(entries)

    patch.setattr(millrace.engine.places.KeyPlaces, "within", more)
    patch.setattr(millrace.engine.places.KeyPlaces, "is_open", lambda _self, _entry: True)
    patch.setattr(millrace.engine.places.KeyPlaces, "note", lambda _self, _entry, claimable: None)
    _places_without_a_second_look(patch)


def _fifo_keeps_what_lies_behind_a_lost_head(patch: pytest.MonkeyPatch) -> None:
    def take(queue: Any, seen: Sequence[Entry], owner: str, now: int, lease_ms: int) -> list[tuple[Entry, Entry]]:
        wanted = [
            replace(
                e,
                token=f"{owner}{n}{now}",
                version=e.version + 1,
                until=now + lease_ms,
                owner=owner,
                attempts=e.attempts + e.lost(now),
            )
            for n, e in enumerate(seen)
        ]
        outcomes = queue.store.claim_entries(wanted, now) if wanted else []
        return [(b, e) for b, e, o in zip(seen, wanted, outcomes, strict=True) if isinstance(o, Applied)]

    patch.setattr(millrace.engine.claim, "_take", take)


def _passed_by_for_good(patch: pytest.MonkeyPatch) -> None:
    """An entry once seen without its message is looked past, though it may have been accepted since."""

    def look(queue: Any, pk: str, wanted: int, asked: Any) -> Any:
        passed: dict[Place, Entry] = {}
        for _ in range(4):
            found = millrace.engine.poll.poll(queue, pk, wanted, queue.now(), asked.only, passed.keys())
            messages = millrace.engine.claim._messages_of(queue, found.entries)
            unsent = {e.place: e for e in found.entries if millrace.engine.claim._is_unsent(e, messages, queue.now())}
            if not unsent:
                break
            passed |= unsent
        return found, messages

    patch.setattr(millrace.engine.claim, "_look", look)


def _lost_runs_are_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "lost", lambda _self, _now: False)


def _replay_with_a_fresh_id(patch: pytest.MonkeyPatch) -> None:
    import millrace.engine.dead_letters

    enqueue = millrace.engine.enqueue.enqueue
    patch.setattr(millrace.engine.dead_letters, "enqueue", lambda queue, draft, system_key="": enqueue(queue, draft))


def _orphans_removed_without_a_marker(patch: pytest.MonkeyPatch) -> None:
    def withdraw_entry(self: MemoryStore, entry: Entry, _marker: Message) -> WriteResult[Entry]:
        return self.end_entries([entry])[0]

    patch.setattr(MemoryStore, "withdraw_entry", withdraw_entry)


def _orphans_give_credits_back(patch: pytest.MonkeyPatch) -> None:
    """As it was: an orphan's credit is booked, though the sweep may have found it lost before."""

    def booked(queue: Any, entry: Entry) -> bool:
        epoch = queue.state().epoch
        gone = remove_orphan(queue, entry)
        if gone:
            book_endings(queue, epoch, 1)
        return gone

    patch.setattr(millrace.engine.claim, "remove_orphan", booked)


def _credits_lost_before_they_are_spent(patch: pytest.MonkeyPatch) -> None:
    """As it was: the sweep does not wait for a sender that is slow to write its entry."""
    patch.setattr(millrace.model.queue_state, "COMMIT_WITHIN_MS", 0)


def _doomed_count_as_claims(patch: pytest.MonkeyPatch) -> None:
    """As it was: a poll that is full of what is to be buried hands out nothing else."""
    poll = millrace.engine.poll.poll

    def crowded(queue: Any, pk: str, wanted: int, *rest: Any) -> Any:
        found = poll(queue, pk, wanted, *rest)
        if found.doomed:
            found.entries.clear()
        return found

    patch.setattr(millrace.engine.claim, "poll", crowded)


def _follow_up_under_the_newest_epoch(patch: pytest.MonkeyPatch) -> None:
    """What follows an ending is booked as if the ending had just been."""
    follow_up = millrace.engine.finish.follow_up

    def booked_now(queue: Any, ended: Any) -> None:
        epoch = queue.state(fresh=True).epoch
        follow_up(queue, [replace(one, epoch=epoch) for one in ended])

    patch.setattr(tests.proofs.exploration.scenarios, "follow_up", booked_now)


def _a_batch_of_endings_each_by_itself(patch: pytest.MonkeyPatch) -> None:
    """As a batch of statements would end them: of a batch any may be all that ends."""

    def by_itself(self: MemoryStore, entries: Sequence[Entry], _token: str) -> WriteResult[Entry]:
        outcomes = self.end_entries(entries)
        return APPLIED if outcomes == [APPLIED] * len(entries) else Refused(None)

    patch.setattr(MemoryStore, "end_together", by_itself)


def _a_batch_ends_without_tokens(patch: pytest.MonkeyPatch) -> None:
    def whatever(self: MemoryStore, entries: Sequence[Entry], _token: str) -> WriteResult[Entry]:
        for entry in entries:
            self.entries.pop(entry.place, None)
        return APPLIED

    patch.setattr(MemoryStore, "end_together", whatever)


def _endings_behind_a_lost_one(patch: pytest.MonkeyPatch) -> None:
    """What lies behind a message that another worker holds is ended all the same."""

    def each(queue: Any, entries: Sequence[Entry], snapshots: Any) -> Any:
        found = [end_in_order(queue, [one], [snapshot]) for one, snapshot in zip(entries, snapshots, strict=True)]
        return [one for ended, _ in found for one in ended], next((error for _, error in found if error), None)

    patch.setattr(tests.proofs.exploration.scenarios, "end_in_order", each)


def _turns_that_never_come(patch: pytest.MonkeyPatch) -> None:
    """What is left to a rival is left to it for good."""
    patch.setattr(millrace.engine.shares, "TURN_MS", 1 << 40)
    patch.setattr(millrace.engine.shares, "ALL_TURNS_MS", 1 << 40)


def _probes_without_looking(patch: pytest.MonkeyPatch) -> None:
    """A breaker is moved on wherever it stands now."""
    set_breaker = MemoryStore.set_breaker

    def as_it_stands(self: MemoryStore, seen: QueueState, target: str, breaker: Any) -> bool:
        return set_breaker(self, self.get_queue_state(seen.tenant, seen.queue), target, breaker)

    patch.setattr(MemoryStore, "set_breaker", as_it_stands)


def _ticks_with_fresh_ids(patch: pytest.MonkeyPatch) -> None:
    import millrace.admission.schedules

    enqueue = millrace.engine.enqueue.enqueue
    patch.setattr(millrace.admission.schedules, "enqueue", lambda queue, draft, system_key="": enqueue(queue, draft))


def _ticks_within_the_window_alone(patch: pytest.MonkeyPatch) -> None:
    import millrace.admission.schedules

    def draft(*fields: Any, once: bool = False, **others: Any) -> Draft:
        return Draft(*fields, **others)

    patch.setattr(millrace.admission.schedules, "Draft", draft)


def _cancel_without_a_trace(patch: pytest.MonkeyPatch) -> None:
    trace = millrace.engine.erase._trace
    patch.setattr(millrace.engine.erase, "_trace", lambda *given: replace(trace(*given), purged_at=0))


def _what_is_gone_was_mine(patch: pytest.MonkeyPatch) -> None:
    """An ack that finds its entry gone believes that it was its own, unless a result says otherwise."""
    ended_earlier = millrace.engine.finish._ended_earlier

    def believing(queue: Any, entry: Entry) -> Any:
        return ended_earlier(queue, entry) if queue.store.get_records(entry.id).result else None

    patch.setattr(millrace.engine.finish, "_ended_earlier", believing)


def _senders_list_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "register", lambda _self, _tenant, _queue: None)


def _leaves_the_list_as_it_was_seen(patch: pytest.MonkeyPatch) -> None:
    """A queue that was seen empty leaves the list, whatever came meanwhile."""

    def unregister(self: MemoryStore, seen: QueueState) -> bool:
        self._keep(replace(self.get_queue_state(seen.tenant, seen.queue), listed=False), ())
        return True

    patch.setattr(MemoryStore, "unregister", unregister)


def _order_numbers_that_do_not_grow(patch: pytest.MonkeyPatch) -> None:
    take_numbers = MemoryStore.take_numbers

    def downwards(self: MemoryStore, tenant: str, queue: str, counts: Any) -> dict[int, int]:
        return {shard: 1_000 - first for shard, first in take_numbers(self, tenant, queue, counts).items()}

    patch.setattr(MemoryStore, "take_numbers", downwards)


MUTANTS: dict[str, Mutant] = {
    "what is gone was mine": Mutant(
        "without a result only a live claim is sure of its own ending",
        "a lease runs out and no result is kept",
        _what_is_gone_was_mine,
    ),
    "senders list nothing": Mutant(
        "a queue is listed before anything is put into it",
        "two senders of a queue that nobody has used",
        _senders_list_nothing,
    ),
    "leaves the list as it was seen": Mutant(
        "a queue with credits given out stays on the list",
        "a queue leaves the list while it is sent to",
        _leaves_the_list_as_it_was_seen,
    ),
    "order numbers that do not grow": Mutant(
        "a later message has a higher number",
        "fifo while two senders send",
        _order_numbers_that_do_not_grow,
    ),
    "ack without token": Mutant(
        "the token in every finishing write",
        "a lease runs out under a worker",
        _ack_without_token,
    ),
    "claim without version": Mutant(
        "the version in the claim",
        "two failing workers and an onlooker",
        _claim_without_version,
    ),
    "claim over a live lease": Mutant(
        "the lease in the claim",
        "two workers claim batches",
        _claim_over_a_live_lease,
    ),
    "no nonce check": Mutant(
        "an entry's own message",
        "two senders of one key, and a worker",
        _no_nonce_check,
    ),
    "no grace for orphans": Mutant(
        "the grace of an uncommitted entry",
        "two senders of one key, and a worker",
        _no_grace_for_orphans,
    ),
    "message before entry": Mutant(
        "the order of the two writes",
        "two senders of one key, and a worker",
        _message_before_entry,
    ),
    "replaced while queued": Mutant(
        "a queued message is a duplicate",
        "a key sent again after its window",
        _replaced_while_queued,
    ),
    "missing entry believed at once": Mutant(
        "the second look at the place",
        "a retry during a repeat after the window",
        _missing_entry_believed_at_once,
    ),
    "a look ignores the window": Mutant(
        "a large message that is over is no answer after its window",
        "a large message sent again after its window",
        _look_ignores_the_window,
    ),
    "a look is the dedupe": Mutant(
        "the condition on the message, also after a look",
        "three senders of one key with large bodies, and a worker",
        _look_is_the_dedupe,
    ),
    "acceptances share a blob": Mutant(
        "a blob for each acceptance, which a repeat takes back",
        "three senders of one key with large bodies, and a worker",
        _acceptances_share_a_blob,
    ),
    "erased without a seal": Mutant(
        "the seal that keeps a late result out",
        "a message is erased wherever it is",
        _erased_without_a_seal,
    ),
    "erased without its body's name": Mutant(
        "the husk that names the body until it is gone",
        "a message is erased wherever it is",
        _erased_without_its_bodys_name,
    ),
    "blob after the commit": Mutant(
        "a body is there before its message",
        "three senders of one key with large bodies, and a worker",
        _blob_after_the_commit,
    ),
    "retry copies the entry": Mutant(
        "moving is one transaction",
        "two failing workers and an onlooker",
        _retry_copies_the_entry,
    ),
    "starts without its lease": Mutant(
        "the look at the clock before a run",
        "a lease runs out under a worker",
        _starts_without_looking_at_its_lease,
    ),
    "endings counted after mending": Mutant(
        "the epoch of an ending",
        "the sweep mends a depth in traffic",
        _endings_counted_after_mending,
    ),
    "mending forgets grants": Mutant(
        "credits that may still be spent",
        "the sweep mends a depth in traffic",
        _mending_forgets_granted_credits,
    ),
    "mending ignores endings": Mutant(
        "endings booked while counting",
        "the sweep mends a depth in traffic",
        _mending_ignores_endings_meanwhile,
    ),
    "credits given twice": Mutant(
        "one credit for an ending",
        "two senders at a full queue",
        _credits_given_twice,
    ),
    "credits over the limit": Mutant(
        "the condition on depth",
        "two senders at a full queue",
        _credits_over_the_limit,
    ),
    "fifo keeps what lies behind": Mutant(
        "release behind a lost head",
        "fifo under takeover and failure",
        _fifo_keeps_what_lies_behind_a_lost_head,
    ),
    "lost runs are free": Mutant(
        "a lost worker charges an attempt",
        "two failing workers and an onlooker",
        _lost_runs_are_free,
    ),
    "ticks with fresh ids": Mutant(
        "the id made of schedule and tick",
        "two sweeps and a tick",
        _ticks_with_fresh_ids,
    ),
    "ticks within the window alone": Mutant(
        "a tick's key, which is never used again",
        "two sweeps and a tick",
        _ticks_within_the_window_alone,
    ),
    "cancel without a trace": Mutant(
        "the trace that tells a late ack of a cancelled message from its own",
        "a running message is cancelled",
        _cancel_without_a_trace,
    ),
    "replay with a fresh id": Mutant(
        "a replay's derived id",
        "one replay job run twice",
        _replay_with_a_fresh_id,
    ),
    "passed by for good": Mutant(
        "the second look at an uncommitted head",
        "fifo while two senders send",
        _passed_by_for_good,
    ),
    "orphans removed without a marker": Mutant(
        "the marker in a withdrawn message's place",
        "a sender asleep past the grace",
        _orphans_removed_without_a_marker,
    ),
    "orphans give credits back": Mutant(
        "an orphan's credit may be lost already",
        "a sender asleep past the grace",
        _orphans_give_credits_back,
    ),
    "credits lost before they are spent": Mutant(
        "the sweep's wait for slow senders",
        "a slow sender with its last credit",
        _credits_lost_before_they_are_spent,
    ),
    "what is to be buried hides the rest": Mutant(
        "liveness: what may run is handed out",
        "a healthy message behind a doomed one",
        _doomed_count_as_claims,
    ),
    "follow-up under the newest epoch": Mutant(
        "the epoch before an ending, for what follows it",
        "fifo whose counters follow behind",
        _follow_up_under_the_newest_epoch,
    ),
    "a batch of endings each by itself": Mutant(
        "all of a batch ends, or none",
        "fifo in batches",
        _a_batch_of_endings_each_by_itself,
    ),
    "a batch ends without tokens": Mutant(
        "the token of each message that ends in a batch",
        "fifo in batches",
        _a_batch_ends_without_tokens,
    ),
    "endings behind a lost one": Mutant(
        "nothing ends behind a message that did not",
        "fifo in batches",
        _endings_behind_a_lost_one,
    ),
    "turns that never come": Mutant(
        "liveness: what is left to a rival is anybody's after half a second",
        "two workers race and share",
        _turns_that_never_come,
    ),
    "places without a second look": Mutant(
        "reading a key again after the claim",
        "one place for each key while three send",
        _places_without_a_second_look,
    ),
    "places of two without a second look": Mutant(
        "reading a key again after the claim",
        "two places for each key while three send",
        _places_without_a_second_look,
    ),
    "the first stays": Mutant(
        "who sees too many gives back, also where he lies ahead",
        "one place for each key while three send",
        _the_first_stays,
    ),
    "a place too many": Mutant(
        "the number of places",
        "two places under takeover and failure",
        _a_place_too_many,
    ),
    "packed after its last use": Mutant(
        "the end of a dictionary's use",
        "two reviews of a dictionary in traffic",
        _packed_after_its_last_use,
    ),
    "a new dictionary takes the old one's place": Mutant(
        "a dictionary is kept while anything refers to it",
        "two reviews of a dictionary in traffic",
        _new_dictionary_in_the_old_ones_place,
    ),
    "probes without looking": Mutant(
        "one probe over all workers",
        "three workers and one probe of a target",
        _probes_without_looking,
    ),
}
