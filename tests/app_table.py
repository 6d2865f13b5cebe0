"""A table of an app's own beside the queue's, on whichever store a test runs: orders that are charged."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from millrace.model.transaction import AppWrite, app_writes
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryStore

#: Tests that run side by side share one engine and keep apart by tables.
NAME = f"orders-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
_KEYS = ("pk", "sk")


class Orders:
    """One test's orders: kept apart from other tests' by its tenant."""

    def __init__(self, store: Store, tenant: str, boto3_client: Any = None) -> None:
        self._store = store
        self._tenant = tenant
        if isinstance(store, MemoryStore):
            store.app_tables.create(NAME, *_KEYS)
        elif boto3_client is not None:
            with suppress(boto3_client.exceptions.ResourceInUseException):
                boto3_client.create_table(
                    TableName=NAME,
                    BillingMode="PAY_PER_REQUEST",
                    AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in _KEYS],
                    KeySchema=[
                        {"AttributeName": name, "KeyType": kind}
                        for name, kind in zip(_KEYS, ("HASH", "RANGE"), strict=True)
                    ],
                )

    @property
    def client(self) -> Any:
        """What reads and writes single items by boto3's names."""
        if isinstance(self._store, MemoryStore):
            return self._store.app_tables
        assert isinstance(self._store, DynamoStore)
        return self._store._calls.client

    def key(self, number: int) -> dict[str, Any]:
        return {"pk": {"S": f"{self._tenant}#{number}"}, "sk": {"S": "order"}}

    def put(self, number: int, *, new: bool = True) -> dict[str, Any]:
        """An order as an item of a transaction; `new` where none may be there."""
        put: dict[str, Any] = {"TableName": NAME, "Item": {**self.key(number), "charges": {"N": "1"}}}
        if new:
            put["ConditionExpression"] = "attribute_not_exists(pk)"
        return {"Put": put}

    def charge(self, number: int) -> dict[str, Any]:
        """One charge more, as an item of a transaction: what happens twice is seen."""
        return {
            "Update": {
                "TableName": NAME,
                "Key": self.key(number),
                "UpdateExpression": "ADD charges :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
        }

    def check(self, number: int) -> dict[str, Any]:
        """The order must be there."""
        condition = {"ConditionExpression": "attribute_exists(pk)"}
        return {"ConditionCheck": {"TableName": NAME, "Key": self.key(number), **condition}}

    def charges(self, number: int) -> int | None:
        """How often an order was charged; None where there is none."""
        found = self.client.get_item(TableName=NAME, Key=self.key(number), ConsistentRead=True).get("Item")
        return int(found["charges"]["N"]) if found else None


def writes(*items: dict[str, Any]) -> list[AppWrite]:
    return app_writes(items)
