"""Writes of an app's own that share a transaction with the queue's: boto3's `TransactItems`, checked before anything
is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millrace.model.errors import InvalidTransaction
from millrace.model.values import dataclass

#: What DynamoDB takes in one TransactWriteItems, the queue's own items included.
MAX_ITEMS = 100
VERBS = ("Put", "Update", "Delete", "ConditionCheck")
_NEEDS = {"Put": "Item", "Update": "Key", "Delete": "Key", "ConditionCheck": "Key"}
_TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"})
_EXAMPLE = """{"Put": {"TableName": "Orders", "Item": {"id": {"S": "7"}}}}"""


@dataclass(frozen=True, slots=True)
class AppWrite:
    """One write of the app's own."""

    verb: str  #: one of `VERBS`
    request: Mapping[str, Any]  #: as boto3 takes it

    @property
    def table(self) -> str:
        """Its table, by name or ARN, as it was given."""
        return str(self.request["TableName"])

    @property
    def table_name(self) -> str:
        return self.table.rpartition("table/")[2] if self.table.startswith("arn:") else self.table

    @property
    def region(self) -> str:
        """The region that an ARN names; empty where the table goes by its name."""
        return self.table.split(":")[3] if self.table.startswith("arn:") else ""

    @property
    def told(self) -> str:
        """The write in words, for an error: never a value."""
        condition = self.request.get("ConditionExpression")
        return f"{self.verb} in {self.table_name}" + (f", condition `{condition}`" if condition else "")

    def item(self) -> dict[str, Any]:
        return {self.verb: dict(self.request)}


def app_writes(items: Iterable[Mapping[str, Any]]) -> list[AppWrite]:
    """Check boto3's items one by one. Raises InvalidTransaction that names the first wrong one."""
    return [_checked(number, item) for number, item in enumerate(items, 1)]


def _checked(number: int, item: Any) -> AppWrite:
    if not isinstance(item, Mapping) or len(item) != 1 or next(iter(item)) not in VERBS:
        raise InvalidTransaction(f"Write {number} is not one of {', '.join(VERBS)}: as boto3 takes it, {_EXAMPLE}.")
    ((verb, request),) = item.items()
    if not isinstance(request, Mapping) or not isinstance(request.get("TableName"), str) or not request["TableName"]:
        raise InvalidTransaction(f"Write {number} ({verb}) names no TableName.")
    values = request.get(_NEEDS[verb])
    if not isinstance(values, Mapping) or not values or not all(map(_is_typed, values.values())):
        raise InvalidTransaction(
            f"Write {number} ({verb} in {request['TableName']}) needs {_NEEDS[verb]!r} with typed values, "
            f"as boto3's client takes them: {_EXAMPLE}."
        )
    if verb == "Update" and not request.get("UpdateExpression"):
        raise InvalidTransaction(f"Write {number} (Update in {request['TableName']}) has no UpdateExpression.")
    if verb == "ConditionCheck" and not request.get("ConditionExpression"):
        raise InvalidTransaction(f"Write {number} (ConditionCheck in {request['TableName']}) checks nothing.")
    return AppWrite(verb, request)


def _is_typed(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _TYPES


def check_together(writes: Sequence[AppWrite], own_items: int, own_tables: Sequence[str], region: str) -> None:
    """Refuse what no single transaction can hold, before anything is written. Raises InvalidTransaction.

    `own_items` are the queue's part; its own tables are not the app's to write.
    """
    total = len(writes) + own_items
    if total > MAX_ITEMS:
        raise InvalidTransaction(
            f"{len(writes)} writes and the queue's own {own_items} are {total} items: a transaction takes {MAX_ITEMS}."
        )
    for number, write in enumerate(writes, 1):
        if write.table_name in own_tables:
            raise InvalidTransaction(f"Write {number} is to {write.table_name!r}, a table of the queue's own.")
        if write.region and region and write.region != region:
            raise InvalidTransaction(
                f"Write {number} is to a table in {write.region}, the queue's is in {region}: "
                "a transaction stays within one account and region."
            )
    accounts = sorted({write.table.split(":")[4] for write in writes if write.region})
    if len(accounts) > 1:
        raise InvalidTransaction(f"The writes are of several accounts ({', '.join(accounts)}): a transaction has one.")


class Staged:
    """Writes collected for one transaction. PynamoDB's `TransactWrite(connection=...)` takes it as its connection."""

    def __init__(self) -> None:
        self.writes: list[AppWrite] = []

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        """All of them or, where one is wrong, none. Raises InvalidTransaction."""
        added = app_writes(items)
        check_together([*self.writes, *added], 0, (), "")
        self.writes += added

    def transact_write_items(
        self,
        *,
        condition_check_items: Sequence[Mapping[str, Any]] = (),
        delete_items: Sequence[Mapping[str, Any]] = (),
        put_items: Sequence[Mapping[str, Any]] = (),
        update_items: Sequence[Mapping[str, Any]] = (),
        **_settings: Any,
    ) -> dict[str, Any]:
        """What PynamoDB's `TransactWrite` calls as its block is left: its writes join those that are staged."""
        self.add(
            [
                *({"ConditionCheck": one} for one in condition_check_items),
                *({"Delete": one} for one in delete_items),
                *({"Put": one} for one in put_items),
                *({"Update": one} for one in update_items),
            ]
        )
        return {}
