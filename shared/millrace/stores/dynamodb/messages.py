"""Messages in DynamoDB, and what is kept under their ids."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.errors import StoreUnavailable
from millrace.model.message import Message, MessageLocation, Records, Result
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import ABSENT, Condition, at_most, nonce_is
from millrace.stores.dynamodb.items import (
    LOCATION,
    MESSAGE,
    Item,
    location_of,
    message_item,
    message_key,
    message_of,
    records_of,
    result_item,
)
from millrace.stores.dynamodb.reads import get_item, query_all
from millrace.stores.dynamodb.retrying_client import DUPLICATE, ConditionFailed, RetryingClient, WriteAnswer
from millrace.stores.dynamodb.writes import put, write_all
from millrace.stores.interface import WriteResult


class Messages:
    """The queue table's messages, their locations, results and workflow states."""

    _calls: RetryingClient
    _names: TableNames

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        return self._put_messages(messages, ABSENT)

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        return self._put_messages([message], nonce_is(old_nonce))[0]

    def _put_messages(self, messages: Sequence[Message], condition: Condition) -> list[WriteResult[Message]]:
        wanted = [(message, put(self._names.queue, message_item(message), condition)) for message in messages]
        return write_all(self._calls, wanted, _stored_message, _has_nonce)

    def get_messages(self, ids: Sequence[str]) -> dict[str, Message]:
        keys = [message_key(message_id, MESSAGE) for message_id in dict.fromkeys(ids)]
        items = self._calls.read_all(self._names.queue, keys)
        return {message.id: message for message in map(_stored_message, items)}

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
        try:
            self._calls.send("put_item", **put(self._names.queue, item, older.or_absent()).request())
        except (ConditionFailed, StoreUnavailable):
            # Losing a snapshot loses an answer to a repeat, never the truth: the entry's deletion was the commit.
            return

    def get_records(self, message_id: str) -> Records:
        pk = message_key(message_id, MESSAGE)["pk"]["S"]
        return records_of(query_all(self._calls, self._names.queue, pk), message_id)

    def get_location(self, message_id: str) -> MessageLocation | None:
        item = get_item(self._calls, self._names.queue, message_key(message_id, LOCATION))
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
