"""Conditional writes of single items: alone, in a transaction, or in a batch of PartiQL statements.

Whoever writes states the write once; how many there are decides how it is sent. Alone it is a plain request, which
returns the old item with a refusal; up to 25 go in one BatchExecuteStatement, each with its own condition and answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from millrace.model.clock import system_entropy
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import random_token
from millrace.stores.dynamodb.conditions import ABSENT, Condition
from millrace.stores.dynamodb.retrying_client import (
    CONDITION_FAILED,
    DUPLICATE,
    WRITTEN,
    ConditionFailed,
    WriteAnswer,
)
from millrace.stores.interface import APPLIED, Refused, Unknown, WriteResult

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import EncodedStatement
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.retrying_client import RetryingClient

T = TypeVar("T")
#: Whether a refused write was refused only because an earlier try of the same write had got through.
IsOwn = Callable[[T, T | None, WriteAnswer], bool]
_IN_TRANSACTION = {"put_item": "Put", "update_item": "Update", "delete_item": "Delete"}
_NOTHING: Mapping[str, Any] = {}


class Write:
    """One write of one item, with the condition under which it happens."""

    __slots__ = ("adds", "condition", "item", "operation", "removes", "sets", "table")

    def __init__(
        self,
        operation: str,
        table: str,
        item: Item,
        condition: Condition | None,
        sets: Mapping[str, Any] = _NOTHING,
        adds: Mapping[str, int] = _NOTHING,
        removes: Sequence[str] = (),
    ) -> None:
        self.operation = operation  #: by boto3's name
        self.table = table
        self.item = item  #: the key alone, unless it is a put
        self.condition = condition
        self.sets = sets
        self.adds = adds
        self.removes = removes

    @property
    def key(self) -> Item:
        return {"pk": self.item["pk"], "sk": self.item["sk"]}

    @property
    def place(self) -> tuple[str, str]:
        return self.item["pk"]["S"], self.item["sk"]["S"]

    def request(self) -> dict[str, Any]:
        """Arguments of a plain request."""
        request: dict[str, Any] = {"TableName": self.table}
        request["Item" if self.operation == "put_item" else "Key"] = self.item
        names: dict[str, str] = {}
        values: dict[str, Any] = {}
        if self.operation == "update_item":
            request["UpdateExpression"], names = _update(tuple(self.sets), tuple(self.adds), tuple(self.removes))
            values = {f":s{number}": value for number, value in enumerate(self.sets.values())}
            values |= {f":a{number}": {"N": str(count)} for number, count in enumerate(self.adds.values())}
        if self.condition is not None:
            request["ConditionExpression"], condition_names, condition_values = self.condition.expression()
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
            names = {**names, **condition_names}
            values |= condition_values
        if names:
            request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = values
        return request

    def in_transaction(self) -> dict[str, Any]:
        return {_IN_TRANSACTION[self.operation]: self.request()}

    def statement(self) -> dict[str, Any]:
        """The same as a statement of a batch: one fixed text for each set of attributes, the values as parameters."""
        if self.operation == "put_item" and self.condition is ABSENT:
            return {
                "Statement": insert_text(self.table, tuple(self.item)),
                "Parameters": list(self.item.values()),
            }
        if self.operation == "put_item" or self.condition is None or self.adds or self.removes:
            raise ValueError(f"no statement for {self.operation} of {self.item['pk']}")
        where = self.condition.where()
        if self.operation == "update_item":
            text = _update_text(self.table, tuple(self.sets), where)
        else:
            text = _delete_text(self.table, where)
        parameters = [*self.sets.values(), self.item["pk"], self.item["sk"], *self.condition.values]
        return {"Statement": text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class EncodedInsert:
    """The put of a new item, as its statement's text: it goes in a batch, and no other way."""

    __slots__ = ("encoded", "place", "table")
    operation = "put_item"
    condition = ABSENT

    def __init__(self, table: str, place: tuple[str, str], encoded: EncodedStatement) -> None:
        self.table = table
        self.place = place
        self.encoded = encoded

    @property
    def key(self) -> Item:
        return {"pk": {"S": self.place[0]}, "sk": {"S": self.place[1]}}

    def statement(self) -> EncodedStatement:
        return self.encoded


#: What a batch takes.
BatchedWrite = Write | EncodedInsert


def put(table: str, item: Item, condition: Condition | None = None) -> Write:
    return Write("put_item", table, item, condition)


def delete(table: str, key: Item, condition: Condition | None = None) -> Write:
    return Write("delete_item", table, key, condition)


def update(
    table: str,
    key: Item,
    condition: Condition | None = None,
    *,
    sets: Mapping[str, Any] = _NOTHING,
    adds: Mapping[str, int] = _NOTHING,
    removes: Sequence[str] = (),
) -> Write:
    return Write("update_item", table, key, condition, sets, adds, removes)


def write_all(
    calls: RetryingClient,
    wanted: Sequence[tuple[T, BatchedWrite]],
    read: Callable[[Item], T],
    is_own: IsOwn[T],
    patience_s: float | None = None,
) -> list[WriteResult[T]]:
    """Write each by itself; what came of each, with what is stored where it was refused."""
    writes = [write for _, write in wanted]
    alone = writes[0] if len(writes) == 1 else None
    answers = [_write_one(calls, alone)] if isinstance(alone, Write) else _write_batch(calls, writes, patience_s)
    return [_result(answer, noun, read, is_own) for answer, (noun, _) in zip(answers, wanted, strict=True)]


def _write_one(calls: RetryingClient, write: Write) -> WriteAnswer:
    try:
        calls.send(write.operation, **write.request())
    except ConditionFailed as refusal:
        return WriteAnswer("ConditionalCheckFailed", refusal.item, refusal.after_no_answer)
    except StoreUnavailable as error:
        return WriteAnswer("StoreUnavailable", error=error)
    return WriteAnswer()


def _write_batch(calls: RetryingClient, writes: Sequence[BatchedWrite], patience_s: float | None) -> list[WriteAnswer]:
    """Answers as plain requests give them: a batch keeps silent about two things."""
    answers = calls.batch(writes, patience_s=patience_s)
    if all(map(is_, answers, repeat(WRITTEN))) and all(write.operation == "put_item" for write in writes):
        return answers
    for number, (answer, write) in enumerate(zip(answers, writes, strict=True)):
        nothing_deleted = write.operation == "delete_item" and not answer.code and answer.item is None
        if nothing_deleted and not (write.condition is not None and write.condition.absent_too):
            answers[number] = WriteAnswer("ConditionalCheckFailed", None, answer.after_no_answer)
    taken = {write.place: write.key for answer, write in zip(answers, writes, strict=True) if answer.code == DUPLICATE}
    try:
        items = calls.read_all(writes[0].table, list(taken.values())) if taken else []
    except StoreUnavailable:
        return answers
    existing = {(item["pk"]["S"], item["sk"]["S"]): item for item in items}
    return [
        WriteAnswer("ConditionalCheckFailed", existing.get(write.place)) if answer.code == DUPLICATE else answer
        for answer, write in zip(answers, writes, strict=True)
    ]


def _result(answer: WriteAnswer, wanted: T, read: Callable[[Item], T], is_own: IsOwn[T]) -> WriteResult[T]:
    if answer is WRITTEN or not answer.code:
        return APPLIED
    if answer.code not in CONDITION_FAILED:
        return Unknown(answer.error or StoreUnavailable(f"A batched write got no clear answer: {answer.code}."))
    current = read(answer.item) if answer.item else None
    return APPLIED if is_own(wanted, current, answer) else Refused(current)


@lru_cache(maxsize=256)
def _update(sets: tuple[str, ...], adds: tuple[str, ...], removes: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The UpdateExpression and its names."""
    parts = [("SET", "s", sets, " = :s"), ("ADD", "a", adds, " :a"), ("REMOVE", "r", removes, "")]
    clauses = []
    for verb, mark, names, to in parts:
        changes = [f"#{mark}{number}{f'{to}{number}' if to else ''}" for number in range(len(names))]
        if changes:
            clauses.append(f"{verb} {', '.join(changes)}")
    placeholders = {f"#{mark}{number}": name for _, mark, names, _ in parts for number, name in enumerate(names)}
    return " ".join(clauses), placeholders


@lru_cache(maxsize=256)
def insert_text(table: str, names: tuple[str, ...]) -> str:
    fields = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{fields}}}'


@lru_cache(maxsize=64)
def _update_text(table: str, names: tuple[str, ...], where: str) -> str:
    changes = " ".join(f'SET "{name}" = ?' for name in names)
    return f'UPDATE "{table}" {changes} WHERE "pk" = ? AND "sk" = ? AND {where}'


@lru_cache(maxsize=64)
def _delete_text(table: str, where: str) -> str:
    """The old item comes back, since a deletion of nothing is a success here."""
    return f'DELETE FROM "{table}" WHERE "pk" = ? AND "sk" = ? AND {where} RETURNING ALL OLD *'  # noqa: S608


def send_transaction(calls: RetryingClient, items: list[dict[str, Any]], request_token: str = "") -> None:
    """Write several items or none. The request token makes a repeat of this very call harmless.

    One that is given does so for a repeat by the caller as well, for ten minutes.
    """
    token = request_token or random_token(system_entropy)
    calls.send("transact_write_items", TransactItems=items, ClientRequestToken=token)
