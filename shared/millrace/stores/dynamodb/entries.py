"""Entries in DynamoDB: put, read, claim, end, hold, move, bury."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pynamodb.expressions.condition import Condition

from millrace.model.clock import Clock
from millrace.model.cursor import Page
from millrace.model.errors import StoreUnavailable
from millrace.model.message import DeadLetter, Entry, MessageLocation, Place, WorkflowState
from millrace.stores.dynamodb import statements
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import (
    Item,
    claim_attributes,
    dead_letter_item,
    entry_item,
    entry_of,
    held_attributes,
    location_item,
    place_key,
    workflow_state_item,
    workflow_state_of,
)
from millrace.stores.dynamodb.retrying_client import (
    DUPLICATE,
    CancelledByCondition,
    ConditionFailed,
    RetryingClient,
    StatementResult,
)
from millrace.stores.dynamodb.tables import EntryItem, Requests, WorkflowStateItem
from millrace.stores.interface import APPLIED, Refused, Unknown, WriteResult

#: Sorts right behind a key, before every longer one that begins with it: no key holds control characters.
JUST_AFTER = "\x01"


class Entries:
    """The queue table's entries."""

    _calls: RetryingClient
    _requests: Requests
    _names: TableNames
    _clock: Clock

    # -- enqueue --
    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        table = self._names.queue
        if len(entries) == 1:
            request = self._requests.put(table, entry_item(entries[0]), EntryItem.pk.does_not_exist())
            return [self._one("put_item", request, entries[0], self._is_mine)]
        answers = self._calls.batch([statements.insert(table, entry_item(entry)) for entry in entries])
        answers = self._with_old_items(answers, entries)
        return [self._outcome(answer, entry, self._is_mine) for answer, entry in zip(answers, entries, strict=True)]

    def _with_old_items(self, answers: list[StatementResult], entries: Sequence[Entry]) -> list[StatementResult]:
        """An insert that found its place taken does not say by what: read all those at once."""
        taken = {entry.place for answer, entry in zip(answers, entries, strict=True) if answer.code == DUPLICATE}
        try:
            items = self._calls.read_all(self._names.queue, [place_key(place) for place in taken])
        except StoreUnavailable:
            return answers
        existing = {Place(item["pk"]["S"], item["sk"]["S"]): item for item in items}
        return [
            StatementResult("ConditionalCheckFailed", existing.get(entry.place)) if answer.code == DUPLICATE else answer
            for answer, entry in zip(answers, entries, strict=True)
        ]

    def drop_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        table = self._names.queue
        if len(entries) == 1:
            entry = entries[0]
            same = (EntryItem.nonce == entry.nonce) & (EntryItem.version == entry.version)
            condition = EntryItem.pk.does_not_exist() | same
            request = self._requests.delete(table, place_key(entry.place), condition)
            return [self._one("delete_item", request, entry)]
        answers = self._calls.batch(
            [
                statements.delete(
                    table,
                    place_key(entry.place),
                    [("nonce", "=", {"S": entry.nonce}), ("version", "=", {"N": str(entry.version)})],
                )
                for entry in entries
            ]
        )
        return [self._outcome(answer, entry, self._is_gone) for answer, entry in zip(answers, entries, strict=True)]

    # -- claim --
    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        if after >= upto:
            return Page((), None)
        answer = self._calls.send(
            "query",
            TableName=self._names.queue,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :after AND :upto",
            ExpressionAttributeValues={":pk": {"S": pk}, ":after": {"S": after + JUST_AFTER}, ":upto": {"S": upto}},
            ConsistentRead=True,
            Limit=limit,
        )
        last = answer.get("LastEvaluatedKey")
        return Page(tuple(entry_of(item) for item in answer["Items"]), last["sk"]["S"] if last else None)

    def get_entry(self, place: Place) -> Entry | None:
        answer = self._calls.send("get_item", TableName=self._names.queue, Key=place_key(place), ConsistentRead=True)
        return entry_of(answer["Item"]) if "Item" in answer else None

    def get_entries(self, places: Sequence[Place]) -> dict[Place, Entry]:
        keys = [place_key(place) for place in dict.fromkeys(places)]
        return {entry.place: entry for entry in map(entry_of, self._calls.read_all(self._names.queue, keys))}

    def claim_entries(self, claimed: Sequence[Entry], now: int) -> list[WriteResult[Entry]]:
        table = self._names.queue
        if len(claimed) == 1:
            entry = claimed[0]
            unchanged = EntryItem.version == entry.version - 1
            free = EntryItem.until <= now
            request = self._requests.update(
                table, place_key(entry.place), _set(claim_attributes(entry)), unchanged & free
            )
            return [self._one("update_item", request, entry, self._holds_my_token)]
        answers = self._calls.batch(
            [
                statements.update(
                    table,
                    place_key(entry.place),
                    claim_attributes(entry),
                    [("version", "=", {"N": str(entry.version - 1)}), ("until", "<=", {"N": str(now)})],
                )
                for entry in claimed
            ]
        )
        return [
            self._outcome(answer, entry, self._holds_my_token) for answer, entry in zip(answers, claimed, strict=True)
        ]

    # -- finish --
    def end_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        table = self._names.queue
        if len(entries) == 1:
            entry = entries[0]
            request = self._requests.delete(table, place_key(entry.place), EntryItem.token == entry.token)
            return [self._one("delete_item", request, entry, self._gone_while_mine)]
        answers = self._calls.batch(
            [
                statements.delete(table, place_key(entry.place), [("token", "=", {"S": entry.token})])
                for entry in entries
            ]
        )
        return [self._ended(answer, entry) for answer, entry in zip(answers, entries, strict=True)]

    def _ended(self, answer: StatementResult, entry: Entry) -> WriteResult[Entry]:
        if not answer.code and answer.item is None:
            answer = StatementResult("ConditionalCheckFailed", None, answer.after_no_answer)
        return self._outcome(answer, entry, self._gone_while_mine)

    def hold_entries(self, entries: Sequence[Entry], tokens: Sequence[str]) -> list[WriteResult[Entry]]:
        table = self._names.queue
        if len(entries) == 1:
            entry = entries[0]
            request = self._requests.update(
                table, place_key(entry.place), _set(held_attributes(entry)), EntryItem.token == tokens[0]
            )
            return [self._one("update_item", request, entry, self._stands_as_wanted)]
        answers = self._calls.batch(
            [
                statements.update(table, place_key(entry.place), held_attributes(entry), [("token", "=", {"S": token})])
                for entry, token in zip(entries, tokens, strict=True)
            ]
        )
        return [
            self._outcome(answer, entry, self._stands_as_wanted) for answer, entry in zip(answers, entries, strict=True)
        ]

    def move_entry(self, old: Entry, new: Entry, location: MessageLocation) -> WriteResult[Entry]:
        table = self._names.queue
        mine = EntryItem.token == old.token
        if new.place == old.place:
            writes = [{"Put": self._requests.put(table, entry_item(new), mine)}]
        else:
            writes = [
                {"Delete": self._requests.delete(table, place_key(old.place), mine)},
                {"Put": self._requests.put(table, entry_item(new))},
            ]
        return self._transact([*writes, {"Put": self._requests.put(table, location_item(location))}])

    def bury_entry(self, old: Entry, location: MessageLocation, dead_letter: DeadLetter | None) -> WriteResult[Entry]:
        table = self._names.queue
        writes = [
            {"Delete": self._requests.delete(table, place_key(old.place), EntryItem.token == old.token)},
            {"Put": self._requests.put(table, location_item(location))},
        ]
        if dead_letter is not None:
            writes.append({"Put": self._requests.put(self._names.dead_letters, dead_letter_item(dead_letter))})
        return self._transact(writes)

    def put_workflow_state(self, entry: Entry, workflow_state: WorkflowState, now: int) -> WriteResult[WorkflowState]:
        table = self._names.queue
        mine = (EntryItem.token == entry.token) & (EntryItem.until > now)
        unchanged: Condition = (WorkflowStateItem.nonce == workflow_state.nonce) & (
            WorkflowStateItem.version == workflow_state.version - 1
        )
        if workflow_state.version == 1:
            unchanged = WorkflowStateItem.pk.does_not_exist() | (WorkflowStateItem.nonce != workflow_state.nonce)
        check = self._requests.delete(table, place_key(entry.place), mine)
        put = self._requests.put(table, workflow_state_item(entry.id, workflow_state), unchanged)
        try:
            self._send_transaction([{"ConditionCheck": check}, {"Put": put}])
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
    def _transact(self, writes: list[dict[str, Any]]) -> WriteResult[Entry]:
        try:
            self._send_transaction(writes)
        except ConditionFailed as refusal:
            return Refused(entry_of(refusal.item) if refusal.item else None)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _send_transaction(self, writes: list[dict[str, Any]]) -> None:
        """The request token makes a repeat of this very call harmless."""
        self._calls.send("transact_write_items", TransactItems=writes, ClientRequestToken=str(uuid4()))

    def _one(self, operation: str, request: dict[str, Any], entry: Entry, recognise: Any = None) -> WriteResult[Entry]:
        try:
            self._calls.send(operation, **request)
        except ConditionFailed as refusal:
            return self._outcome(
                StatementResult("ConditionalCheckFailed", refusal.item, refusal.after_no_answer), entry, recognise
            )
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _outcome(self, answer: StatementResult, entry: Entry, recognise: Any = None) -> WriteResult[Entry]:
        """Applied, refused, or refused only because an earlier try of the same write had got through."""
        if not answer.code:
            return APPLIED
        if answer.code == "StoreUnavailable":
            return Unknown(StoreUnavailable("DynamoDB gave no answer to a batched write; it may have happened."))
        if not answer.code.startswith("ConditionalCheckFailed"):
            return Unknown(StoreUnavailable(f"DynamoDB gave no clear answer to a batched write: {answer.code}."))
        current = entry_of(answer.item) if answer.item else None
        if recognise is not None and recognise(entry, current, answer):
            return APPLIED
        return Refused(current)

    @staticmethod
    def _is_mine(entry: Entry, current: Entry | None, _answer: StatementResult) -> bool:
        return current is not None and current.nonce == entry.nonce

    @staticmethod
    def _is_gone(_entry: Entry, current: Entry | None, _answer: StatementResult) -> bool:
        return current is None

    @staticmethod
    def _holds_my_token(entry: Entry, current: Entry | None, _answer: StatementResult) -> bool:
        return current is not None and current.token == entry.token

    @staticmethod
    def _stands_as_wanted(entry: Entry, current: Entry | None, answer: StatementResult) -> bool:
        return answer.after_no_answer and current == entry

    def _gone_while_mine(self, entry: Entry, current: Entry | None, answer: StatementResult) -> bool:
        """Missing after a try without an answer, with the claim still live: nobody else could have taken it out."""
        return answer.after_no_answer and current is None and entry.live(self._clock())


def _set(changes: Item) -> list[Any]:
    return [getattr(EntryItem, name).set(_plain(value)) for name, value in changes.items()]


def _plain(value: Item) -> Any:
    return int(value["N"]) if "N" in value else value["S"]
