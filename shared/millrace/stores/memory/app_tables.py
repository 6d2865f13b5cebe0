"""An app's own tables in memory, so that its transactions with the queue can be tried without AWS.

`MemoryStore.app_tables` holds them; a handler under test may be given them in place of boto3's client.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.model.errors import InvalidTransaction
from millrace.model.transaction import AppWrite, app_writes
from millrace.stores.memory.expressions import Item, comparable, holds, updated

Key = tuple[Any, ...]


class ConditionNotMet(Exception):
    """A write's condition did not hold; `response` is shaped as botocore's ClientError shapes it."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        self.response = {"Error": {"Code": code, "Message": message}, **more}
        super().__init__(f"{code}: {message}")


class AppTables:
    """Tables by name, with the calls of boto3's client that write and read single items. Safe to share."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = lock or threading.RLock()
        self._keys: dict[str, tuple[str, ...]] = {}
        self._tables: dict[str, dict[Key, Item]] = {}

    def create(self, name: str, *key: str) -> None:
        """A table with a partition key, and a sort key where it has one."""
        if not 1 <= len(key) <= 2:
            raise ValueError("A table has a partition key, and at most a sort key.")
        self._keys[name] = key
        self._tables[name] = {}

    def items(self, name: str) -> list[Item]:
        """Every item of a table, in the order of their keys."""
        with self._lock:
            return [copy.deepcopy(item) for _, item in sorted(self._table(name).items(), key=lambda pair: str(pair[0]))]

    # -- boto3's names --
    def get_item(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            name = request["TableName"]
            found = self._table(name).get(self._key(name, request["Key"]))
            return {} if found is None else {"Item": copy.deepcopy(found)}

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._single({"Put": request})

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._single({"Update": request})

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._single({"Delete": request})

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        writes = app_writes(request["TransactItems"])
        with self._lock:
            refused = self.refusals(writes)
            if refused:
                reasons = [{"Code": "ConditionalCheckFailed" if n in refused else "None"} for n in range(len(writes))]
                raise ConditionNotMet("TransactionCanceledException", "cancelled", CancellationReasons=reasons)
            self.apply(writes)
        return {}

    def _single(self, item: Mapping[str, Any]) -> dict[str, Any]:
        writes = app_writes([item])
        with self._lock:
            if self.refusals(writes):
                raise ConditionNotMet("ConditionalCheckFailedException", "The conditional request failed")
            self.apply(writes)
        return {}

    # -- for a transaction with the queue: under the store's own lock --
    def refusals(self, writes: Sequence[AppWrite]) -> dict[int, str]:
        """Position → why, for every write whose condition does not hold. Raises InvalidTransaction."""
        places = [(write.table_name, self._place(write)) for write in writes]
        if len(set(places)) < len(places):
            raise InvalidTransaction("A transaction writes an item once: two of its writes are to the same one.")
        refused = {}
        for number, (write, (name, key)) in enumerate(zip(writes, places, strict=True)):
            old = self._table(name).get(key)
            if not _holds(write.request, old):
                refused[number] = f"{write.told}: its condition did not hold"
            elif write.verb == "Update":
                _after(write, old)  # where it cannot be made, nothing of the transaction may be
        return refused

    def apply(self, writes: Sequence[AppWrite]) -> None:
        for write in writes:
            table, key = self._table(write.table_name), self._place(write)
            if write.verb == "Put":
                table[key] = copy.deepcopy(dict(write.request["Item"]))
            elif write.verb == "Delete":
                table.pop(key, None)
            elif write.verb == "Update":
                table[key] = _after(write, table.get(key))

    def _table(self, name: str) -> dict[Key, Item]:
        try:
            return self._tables[name]
        except KeyError:
            raise InvalidTransaction(
                f"There is no table {name!r} in memory: create it first, with its key attributes."
            ) from None

    def _place(self, write: AppWrite) -> Key:
        return self._key(write.table_name, write.request["Item" if write.verb == "Put" else "Key"])

    def _key(self, name: str, item: Mapping[str, Any]) -> Key:
        self._table(name)
        try:
            return tuple(comparable(item[attribute]) for attribute in self._keys[name])
        except KeyError as missing:
            raise InvalidTransaction(f"An item of {name!r} has no {missing.args[0]!r}, which is in its key.") from None


def _holds(request: Mapping[str, Any], old: Item | None) -> bool:
    try:
        return holds(
            request.get("ConditionExpression"),
            request.get("ExpressionAttributeNames"),
            request.get("ExpressionAttributeValues"),
            old,
        )
    except (ValueError, KeyError) as problem:
        raise InvalidTransaction(str(problem)) from problem


def _after(write: AppWrite, old: Item | None) -> Item:
    """An item as an update leaves it."""
    request = write.request
    try:
        return updated(
            request["UpdateExpression"],
            request.get("ExpressionAttributeNames"),
            request.get("ExpressionAttributeValues"),
            dict(request["Key"]) if old is None else old,
        )
    except (ValueError, KeyError) as problem:
        raise InvalidTransaction(f"{write.told}: {problem}") from problem
