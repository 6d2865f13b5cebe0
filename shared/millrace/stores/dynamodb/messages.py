"""Messages in DynamoDB, and what is kept under their ids."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.errors import StoreUnavailable
from millrace.model.keys import WITHDRAWN
from millrace.model.message import SEALED, Message, MessageLocation, Records, Result
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import ABSENT, at_most, equal, nonce_is, nonce_is_not
from millrace.stores.dynamodb.inserts import insert_of_message
from millrace.stores.dynamodb.items import (
    LOCATION,
    MESSAGE,
    Item,
    location_of,
    message_item,
    message_key,
    message_of,
    place_key,
    records_of,
    result_item,
)
from millrace.stores.dynamodb.retrying_client import (
    DUPLICATE,
    CancelledByCondition,
    ConditionFailed,
    RetryingClient,
    WriteAnswer,
)
from millrace.stores.dynamodb.writes import delete, put, send_transaction, write_all
from millrace.stores.interface import APPLIED, Refused, Unknown, WriteResult


class Messages:
    """The queue table's messages, their locations, results and workflow states."""

    _calls: RetryingClient
    _names: TableNames

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        table = self._names.queue
        if len(messages) > 1 and self._calls.takes_encoded:
            writes = [insert_of_message(table, message) for message in messages]
        else:
            writes = [put(table, message_item(message), ABSENT) for message in messages]
        return write_all(self._calls, list(zip(messages, writes, strict=True)), _stored_message, _has_nonce)

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        table = self._names.queue
        own_entry = delete(table, place_key(message.place), nonce_is(message.nonce)).request()
        replaced = put(table, message_item(message), nonce_is(old_nonce)).in_transaction()
        try:
            send_transaction(self._calls, [{"ConditionCheck": own_entry}, replaced])
        except CancelledByCondition as refusal:
            current = _stored_message(refusal.items[1]) if refusal.items[1] else None
            if current and current.nonce == message.nonce:
                return APPLIED
            return Refused(current if 1 in refusal.failed else None)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def get_messages(self, ids: Sequence[str]) -> dict[str, Message]:
        keys = [message_key(message_id, MESSAGE) for message_id in dict.fromkeys(ids)]
        items = self._calls.read_all(self._names.queue, keys)
        return {message.id: message for message in map(_stored_message, items) if message.place.sk != WITHDRAWN}

    def put_results(self, results: Sequence[Result]) -> None:
        items = [result_item(result) for result in results]
        if len(items) == 1:
            self._put_result(items[0])
            return
        answers = self._calls.batch([put(self._names.queue, item, ABSENT) for item in items])
        for item, answer in zip(items, answers, strict=True):
            if answer.code == DUPLICATE:
                self._put_result(item)

    def _put_result(self, item: Item) -> None:
        older = at_most("at", int(item["at"]["N"]))
        anothers_seal = equal("at", SEALED) & nonce_is_not(item["nonce"]["S"])
        try:
            self._calls.send("put_item", **put(self._names.queue, item, (older | anothers_seal).or_absent()).request())
        except (ConditionFailed, StoreUnavailable):
            # Losing a snapshot loses an answer to a repeat, never the truth: the entry's deletion was the commit.
            return

    def get_records(self, message_id: str) -> Records:
        pk = message_key(message_id, MESSAGE)["pk"]["S"]
        return records_of(self._calls.query_all(self._names.queue, pk), message_id)

    def get_location(self, message_id: str) -> MessageLocation | None:
        item = self._calls.get_item(self._names.queue, message_key(message_id, LOCATION))
        return location_of(item, message_id) if item else None

    def get_locations(self, ids: Sequence[str]) -> dict[str, MessageLocation]:
        keys = [message_key(message_id, LOCATION) for message_id in dict.fromkeys(ids)]
        items = self._calls.read_all(self._names.queue, keys)
        return {location.id: location for location in (location_of(item, _id_in(item)) for item in items)}


def _id_in(item: Item) -> str:
    return str(item["pk"]["S"].removeprefix("M#"))


def _stored_message(item: Item) -> Message:
    return message_of(item, _id_in(item))


def _has_nonce(message: Message, current: Message | None, _answer: WriteAnswer) -> bool:
    return current is not None and current.nonce == message.nonce
