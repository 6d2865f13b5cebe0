"""The store as the ingress needs it: what a single enqueue writes and reads, spelled out as constant requests.

PynamoDB and its import are left out of a cold start. Whatever else is asked of it goes to the whole `DynamoStore`,
which is built, and paid for, only then. The conformance suite runs on this one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from millrace.model.errors import StoreUnavailable
from millrace.model.message import Entry, Message, MessageLocation, Place, Records
from millrace.model.queue_state import CreditRequest, QueueState
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import (
    LOCATION,
    MESSAGE,
    QUEUES,
    Item,
    counter,
    entry_item,
    entry_of,
    location_of,
    message_item,
    message_key,
    message_of,
    place_key,
    queue_state_of,
    records_of,
)
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.interface import APPLIED, Full, Refused, Unknown, WriteResult

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.model.clock import Clock
    from millrace.stores.dynamodb.minimal_client import MinimalClient
    from millrace.stores.interface import Store

NEW = "attribute_not_exists(pk)"


class EnqueueStore:
    """Both tables, ready to enqueue at once. Safe to share between threads."""

    def __init__(
        self,
        client: DynamoDBClient | MinimalClient,
        names: TableNames,
        *,
        clock: Clock | None = None,
        calls: RetryingClient | None = None,
    ) -> None:
        self._calls = calls or RetryingClient(client)
        self._names = names
        self._clock = clock
        self._store: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole(), name)

    def _whole(self) -> Store:
        """The store with everything; importing it costs as much as a whole cold start."""
        if self._store is None:
            from millrace.stores.dynamodb.store import DynamoStore

            settings = {} if self._clock is None else {"clock": self._clock}
            client = cast("DynamoDBClient", self._calls.client)
            self._store = DynamoStore(client, self._names, calls=self._calls, **settings)
        return self._store

    # -- enqueue --
    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        if len(entries) != 1:
            return self._whole().put_entries(entries)
        entry = entries[0]
        try:
            self._put(entry_item(entry), NEW)
        except ConditionFailed as refusal:
            current = entry_of(refusal.item) if refusal.item else None
            return [APPLIED if current and current.nonce == entry.nonce else Refused(current)]
        except StoreUnavailable as error:
            return [Unknown(error)]
        return [APPLIED]

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        if len(messages) != 1:
            return self._whole().put_messages(messages)
        return [self._commit(messages[0], NEW)]

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        return self._commit(message, "nonce = :nonce", {":nonce": {"S": old_nonce}})

    def drop_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        if len(entries) != 1:
            return self._whole().drop_entries(entries)
        entry = entries[0]
        try:
            self._calls.send(
                "delete_item",
                TableName=self._names.queue,
                Key=place_key(entry.place),
                ConditionExpression=f"{NEW} OR (nonce = :nonce AND #version = :version)",
                ExpressionAttributeNames={"#version": "version"},
                ExpressionAttributeValues={":nonce": {"S": entry.nonce}, ":version": {"N": str(entry.version)}},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ConditionFailed as refusal:
            return [Refused(entry_of(refusal.item) if refusal.item else None)]
        except StoreUnavailable as error:
            return [Unknown(error)]
        return [APPLIED]

    # -- what a repeat is answered from --
    def get_entry(self, place: Place) -> Entry | None:
        item = self._get(place_key(place))
        return entry_of(item) if item else None

    def get_location(self, message_id: str) -> MessageLocation | None:
        item = self._get(message_key(message_id, LOCATION))
        return location_of(item, message_id) if item else None

    def get_records(self, message_id: str) -> Records:
        answer = self._calls.send(
            "query",
            TableName=self._names.queue,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": message_key(message_id, MESSAGE)["pk"]},
            ConsistentRead=True,
        )
        return records_of(answer["Items"], message_id)

    # -- admission --
    def take_credits(self, tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        if take.count > take.max_depth:
            return Full(self._whole().get_queue_state(tenant, queue))
        request = _additions(
            {
                "depth": take.count,
                "sequence": take.numbers,
                "arrived": take.arrived,
                counter("g", take.minute): take.count,
                counter("a", take.minute): take.arrived,
            },
            [counter(kind, minute) for minute in take.stale_minutes for kind in "gae"],
        )
        if take.count:
            request["ConditionExpression"] = "attribute_not_exists(#depth) OR #depth <= :room"
            request["ExpressionAttributeNames"]["#depth"] = "depth"
            request["ExpressionAttributeValues"][":room"] = {"N": str(take.max_depth - take.count)}
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            answer = self._calls.send(
                "update_item",
                TableName=self._names.queue,
                Key={"pk": {"S": QUEUES}, "sk": {"S": f"{tenant}#{queue}"}},
                ReturnValues="ALL_NEW",
                **request,
            )
        except ConditionFailed as refusal:
            return Full(queue_state_of(refusal.item or {}, tenant, queue))
        return queue_state_of(answer["Attributes"], tenant, queue)

    # -- shared --
    def _commit(self, message: Message, condition: str, values: Item | None = None) -> WriteResult[Message]:
        try:
            self._put(message_item(message), condition, values)
        except ConditionFailed as refusal:
            current = message_of(refusal.item, message.id) if refusal.item else None
            return APPLIED if current and current.nonce == message.nonce else Refused(current)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _put(self, item: Item, condition: str, values: Item | None = None) -> None:
        request: dict[str, Any] = {"ExpressionAttributeValues": values} if values else {}
        self._calls.send(
            "put_item",
            TableName=self._names.queue,
            Item=item,
            ConditionExpression=condition,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **request,
        )

    def _get(self, key: Item) -> Item | None:
        answer = self._calls.send("get_item", TableName=self._names.queue, Key=key, ConsistentRead=True)
        found: Item | None = answer.get("Item")
        return found


def _additions(amounts: dict[str, int], without: list[str]) -> dict[str, Any]:
    """An update that adds to counters, and takes out those that nobody reads any more."""
    added = [(name, amount) for name, amount in amounts.items() if amount]
    text = "ADD " + ", ".join(f"#a{number} :a{number}" for number in range(len(added)))
    if without:
        text += " REMOVE " + ", ".join(f"#r{number}" for number in range(len(without)))
    names = {f"#a{number}": name for number, (name, _) in enumerate(added)}
    names.update({f"#r{number}": name for number, name in enumerate(without)})
    return {
        "UpdateExpression": text,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {f":a{number}": {"N": str(amount)} for number, (_, amount) in enumerate(added)},
    }


if TYPE_CHECKING:

    def _keeps_the_interface(store: EnqueueStore) -> Store:
        return cast("Store", store)
