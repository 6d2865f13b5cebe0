"""Entries in DynamoDB: put, read, claim, end, hold, move, bury."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.clock import Clock
from millrace.model.cursor import Page
from millrace.model.errors import StoreUnavailable
from millrace.model.keys import WITHDRAWN
from millrace.model.message import DeadLetter, Entry, Message, MessageLocation, Place, WorkflowState
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import (
    ABSENT,
    claim_live,
    claim_over,
    equal,
    holds_token,
    nonce_is,
    nonce_is_not,
    version_is,
)
from millrace.stores.dynamodb.dead_letters import dead_letter_item
from millrace.stores.dynamodb.inserts import insert_of_entry
from millrace.stores.dynamodb.items import (
    LOCATION,
    claim_attributes,
    entry_item,
    entry_of,
    held_attributes,
    location_item,
    location_of,
    message_item,
    message_key,
    place_key,
    workflow_state_item,
    workflow_state_of,
)
from millrace.stores.dynamodb.retrying_client import CancelledByCondition, RetryingClient, WriteAnswer
from millrace.stores.dynamodb.writes import BatchedWrite, Write, delete, put, send_transaction, update, write_all
from millrace.stores.interface import APPLIED, Refused, Unknown, WriteResult

#: A partition that does not answer within this is left for the next poll: others are waiting to be read.
LANE_DEADLINE_S = 1.0
#: Claims that are throttled hold up those of their batch that were won no longer than this: the next poll has them.
CLAIM_PATIENCE_S = 0.25


class Entries:
    """The queue table's entries."""

    _calls: RetryingClient
    _names: TableNames
    _clock: Clock

    # -- enqueue --
    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        table = self._names.queue
        writes: list[BatchedWrite]
        if len(entries) > 1 and self._calls.takes_encoded:
            writes = [insert_of_entry(table, entry) for entry in entries]
        else:
            writes = [put(table, entry_item(entry), ABSENT) for entry in entries]
        return write_all(self._calls, list(zip(entries, writes, strict=True)), entry_of, _has_nonce)

    def drop_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        writes = []
        for entry in entries:
            as_written = nonce_is(entry.nonce) & version_is(entry.version)
            writes.append(delete(self._names.queue, place_key(entry.place), as_written.or_absent()))
        return write_all(self._calls, list(zip(entries, writes, strict=True)), entry_of, _is_gone)

    def withdraw_entry(self, entry: Entry, marker: Message) -> WriteResult[Entry]:
        table = self._names.queue
        writes = [
            delete(table, place_key(entry.place), holds_token(entry.token)),
            put(table, message_item(marker), equal("place", WITHDRAWN).or_absent()),
        ]
        return self._transact(writes)

    # -- claim --
    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        items, last = self._calls.query_range(self._names.queue, pk, after, upto, limit, deadline_s=LANE_DEADLINE_S)
        return Page(tuple(map(entry_of, items)), last)

    def get_entry(self, place: Place) -> Entry | None:
        item = self._calls.get_item(self._names.queue, place_key(place))
        return entry_of(item) if item else None

    def get_entries(self, places: Sequence[Place]) -> dict[Place, Entry]:
        keys = [place_key(place) for place in dict.fromkeys(places)]
        return {entry.place: entry for entry in map(entry_of, self._calls.read_all(self._names.queue, keys))}

    def claim_entries(self, claimed: Sequence[Entry], now: int) -> list[WriteResult[Entry]]:
        writes = []
        for entry in claimed:
            as_seen = version_is(entry.version - 1)
            free = claim_over(now)
            sets = claim_attributes(entry)
            writes.append(update(self._names.queue, place_key(entry.place), as_seen & free, sets=sets))
        pairs = list(zip(claimed, writes, strict=True))
        return write_all(self._calls, pairs, entry_of, _has_token, CLAIM_PATIENCE_S)

    # -- finish --
    def end_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        writes = [delete(self._names.queue, place_key(entry.place), holds_token(entry.token)) for entry in entries]
        return write_all(self._calls, list(zip(entries, writes, strict=True)), entry_of, self._gone_while_mine)

    def end_together(self, entries: Sequence[Entry], request_token: str) -> WriteResult[Entry]:
        writes = [delete(self._names.queue, place_key(entry.place), holds_token(entry.token)) for entry in entries]
        outcome = self._transact(writes, request_token)
        return Refused(None) if isinstance(outcome, Refused) else outcome

    def hold_entries(self, entries: Sequence[Entry], tokens: Sequence[str]) -> list[WriteResult[Entry]]:
        writes = [
            update(self._names.queue, place_key(entry.place), holds_token(token), sets=held_attributes(entry))
            for entry, token in zip(entries, tokens, strict=True)
        ]
        return write_all(self._calls, list(zip(entries, writes, strict=True)), entry_of, _is_as_wanted)

    def move_entry(self, old: Entry, new: Entry, location: MessageLocation) -> WriteResult[Entry]:
        table = self._names.queue
        mine = holds_token(old.token)
        if new.place == old.place:
            writes = [put(table, entry_item(new), mine)]
        else:
            writes = [delete(table, place_key(old.place), mine), put(table, entry_item(new))]
        return self._transact([*writes, put(table, location_item(location))])

    def bury_entry(self, old: Entry, location: MessageLocation, dead_letter: DeadLetter | None) -> WriteResult[Entry]:
        table = self._names.queue
        writes = [
            delete(table, place_key(old.place), holds_token(old.token)),
            put(table, location_item(location)),
        ]
        if dead_letter is not None:
            writes.append(put(self._names.dead_letters, dead_letter_item(dead_letter)))
        return self._transact(writes)

    def put_workflow_state(self, entry: Entry, workflow_state: WorkflowState, now: int) -> WriteResult[WorkflowState]:
        mine = holds_token(entry.token) & claim_live(now)
        if workflow_state.version == 1:
            unchanged = nonce_is_not(workflow_state.nonce).or_absent()
        else:
            unchanged = nonce_is(workflow_state.nonce) & version_is(workflow_state.version - 1)
        table = self._names.queue
        check = delete(table, place_key(entry.place), mine).request()
        written = put(table, workflow_state_item(entry.id, workflow_state), unchanged).in_transaction()
        try:
            send_transaction(self._calls, [{"ConditionCheck": check}, written])
        except CancelledByCondition as refusal:
            if 0 in refusal.failed:
                return Refused(None)
            current = workflow_state_of(refusal.item) if refusal.item else WorkflowState(b"", 0)
            if current.nonce != workflow_state.nonce:
                current = WorkflowState(b"", 0)
            return APPLIED if current == workflow_state else Refused(current)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    # -- shared --
    def _transact(self, writes: list[Write], request_token: str = "") -> WriteResult[Entry]:
        try:
            send_transaction(self._calls, [write.in_transaction() for write in writes], request_token)
        except CancelledByCondition as refusal:
            return Refused(entry_of(refusal.items[0]) if refusal.items[0] else None)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _gone_while_mine(self, entry: Entry, current: Entry | None, answer: WriteAnswer) -> bool:
        """Missing after a try without an answer, with the claim still live: only an operator can have taken it."""
        if not (answer.after_no_answer and current is None and entry.live(self._clock())):
            return False
        item = self._calls.get_item(self._names.queue, message_key(entry.id, LOCATION))
        location = location_of(item, entry.id) if item else None
        theirs = location is not None and location.nonce == entry.nonce
        return not (location and theirs and (location.purged_at or location.broken >= entry.version))


def _has_nonce(entry: Entry, current: Entry | None, _answer: WriteAnswer) -> bool:
    return current is not None and current.nonce == entry.nonce


def _is_gone(_entry: Entry, current: Entry | None, _answer: WriteAnswer) -> bool:
    return current is None


def _has_token(entry: Entry, current: Entry | None, _answer: WriteAnswer) -> bool:
    return current is not None and current.token == entry.token


def _is_as_wanted(entry: Entry, current: Entry | None, answer: WriteAnswer) -> bool:
    """Compares what the write changes: an entry that was read from a claim handle knows no more."""
    if not answer.after_no_answer or current is None:
        return False
    same_claim = (current.nonce, current.version) == (entry.nonce, entry.version)
    return same_claim and held_attributes(current) == held_attributes(entry)
