"""Messages in DynamoDB, and what is kept under their ids."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.errors import StoreUnavailable
from millrace.model.message import Message, MessageLocation, Records, Result
from millrace.stores.dynamodb import statements
from millrace.stores.dynamodb.client import TableNames
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
from millrace.stores.dynamodb.retrying_client import DUPLICATE, ConditionFailed, RetryingClient, StatementResult
from millrace.stores.dynamodb.tables import MessageItem, Requests, ResultItem
from millrace.stores.interface import APPLIED, Refused, Unknown, WriteResult


class Messages:
    """The queue table's messages, their whereabouts, results and documents."""

    _calls: RetryingClient
    _requests: Requests
    _names: TableNames

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        table = self._names.queue
        if len(messages) == 1:
            return [self._put_message(messages[0])]
        answers = self._calls.batch([statements.insert(table, message_item(message)) for message in messages])
        taken = [m.id for answer, m in zip(answers, messages, strict=True) if answer.code == DUPLICATE]
        try:
            there = self.get_messages(taken) if taken else {}
        except StoreUnavailable:
            there = {}
        return [self._committed(answer, m, there.get(m.id)) for answer, m in zip(answers, messages, strict=True)]

    def _put_message(self, message: Message, old_nonce: str | None = None) -> WriteResult[Message]:
        free = MessageItem.pk.does_not_exist()
        condition = free if old_nonce is None else MessageItem.nonce == old_nonce
        try:
            self._calls.send("put_item", **self._requests.put(self._names.queue, message_item(message), condition))
        except ConditionFailed as refusal:
            current = message_of(refusal.item, message.id) if refusal.item else None
            return APPLIED if current and current.nonce == message.nonce else Refused(current)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _committed(self, answer: StatementResult, message: Message, current: Message | None) -> WriteResult[Message]:
        if not answer.code:
            return APPLIED
        if answer.code == DUPLICATE and current is not None:
            return APPLIED if current.nonce == message.nonce else Refused(current)
        return Unknown(StoreUnavailable(f"DynamoDB gave no clear answer to a batched commit: {answer.code}."))

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        return self._put_message(message, old_nonce)

    def get_messages(self, ids: Sequence[str]) -> dict[str, Message]:
        found: dict[str, Message] = {}
        wanted = list(dict.fromkeys(ids))
        keys = [message_key(message_id, MESSAGE) for message_id in wanted]
        for item in self._calls.read_all(self._names.queue, keys):
            message_id = item["pk"]["S"][2:]
            found[message_id] = message_of(item, message_id)
        return found

    def put_results(self, results: Sequence[Result]) -> None:
        table = self._names.queue
        items = [result_item(result) for result in results]
        if len(items) == 1:
            self._put_result(items[0])
            return
        answers = self._calls.batch([statements.insert(table, item) for item in items])
        for item, answer in zip(items, answers, strict=True):
            if answer.code == DUPLICATE:
                self._put_result(item)

    def _put_result(self, item: Item) -> None:
        older = ResultItem.at <= int(item["at"]["N"])
        request = self._requests.put(self._names.queue, item, ResultItem.pk.does_not_exist() | older)
        try:
            self._calls.send("put_item", **request)
        except (ConditionFailed, StoreUnavailable):
            # Losing a snapshot loses an answer to a repeat, never the truth: the entry's deletion was the commit.
            return

    def get_records(self, message_id: str) -> Records:
        answer = self._calls.send(
            "query",
            TableName=self._names.queue,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": message_key(message_id, MESSAGE)["pk"]},
            ConsistentRead=True,
        )
        return records_of(answer["Items"], message_id)

    def get_location(self, message_id: str) -> MessageLocation | None:
        answer = self._calls.send(
            "get_item", TableName=self._names.queue, Key=message_key(message_id, LOCATION), ConsistentRead=True
        )
        return location_of(answer["Item"], message_id) if "Item" in answer else None

    def get_locations(self, ids: Sequence[str]) -> dict[str, MessageLocation]:
        keys = [message_key(message_id, LOCATION) for message_id in dict.fromkeys(ids)]
        items = self._calls.read_all(self._names.queue, keys)
        return {message_id: location_of(item, message_id) for item in items for message_id in [item["pk"]["S"][2:]]}
