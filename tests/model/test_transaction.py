"""Writes of an app's own: what cannot be in a transaction is refused in words, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.errors import InvalidTransaction
from millrace.model.transaction import Staged, app_writes, check_together

KEY = {"id": {"S": "7"}}
PUT: dict[str, Any] = {"Put": {"TableName": "Orders", "Item": KEY}}


def put(table: str) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": KEY}}


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({}, "Write 1 is not one of Put, Update"),
        ({"Get": {"TableName": "Orders", "Key": KEY}}, "Write 1 is not one of Put, Update"),
        ({**PUT, "Delete": {}}, "Write 1 is not one of"),
        ({"Put": {"Item": KEY}}, "names no TableName"),
        ({"Put": {"TableName": "Orders", "Key": KEY}}, "needs 'Item'"),
        ({"Put": {"TableName": "Orders", "Item": {"id": "7"}}}, "typed values"),
        ({"Delete": {"TableName": "Orders"}}, "needs 'Key'"),
        ({"Update": {"TableName": "Orders", "Key": KEY}}, "no UpdateExpression"),
        ({"ConditionCheck": {"TableName": "Orders", "Key": KEY}}, "checks nothing"),
    ],
)
def test_a_wrong_item_is_named(item: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidTransaction, match=told):
        app_writes([item])


def test_a_good_item_is_sent_as_it_was_given() -> None:
    (write,) = app_writes([PUT])
    assert write.item() == PUT
    assert (write.verb, write.table_name) == ("Put", "Orders")


ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (["Queue"], "Write 1 is to 'Queue', a table of the queue's own"),
        ([ARN.replace("Orders", "Queue")], "a table of the queue's own"),
        (["Orders", ARN.replace("eu-west-1", "us-east-1")], "Write 2 is to a table in us-east-1, the queue's is in"),
        ([ARN, ARN.replace("1111", "4444")], "several accounts"),
        (["Orders"] * 99, "99 writes and the queue's own 2 are 101 items"),
    ],
)
def test_what_no_single_transaction_can_hold_is_refused(tables: list[str], told: str) -> None:
    with pytest.raises(InvalidTransaction, match=told):
        check_together(app_writes(map(put, tables)), 2, ("Queue", "DeadLetters"), "eu-west-1")


def test_a_table_may_go_by_its_arn() -> None:
    check_together(app_writes([put(ARN), put("Others")]), 2, ("Queue",), "eu-west-1")


def test_staged_writes_are_all_or_none() -> None:
    staged = Staged()
    staged.add([PUT])
    with pytest.raises(InvalidTransaction):
        staged.add([put("Others"), {}])
    assert [write.table for write in staged.writes] == ["Orders"]
    with pytest.raises(InvalidTransaction, match="101 items"):
        staged.add([PUT] * 100)


def test_pynamodb_stages_its_writes() -> None:
    from pynamodb.attributes import NumberAttribute, UnicodeAttribute
    from pynamodb.models import Model
    from pynamodb.transactions import TransactWrite

    class Order(Model):
        class Meta:
            table_name = "Orders"
            region = "eu-west-1"

        id = UnicodeAttribute(hash_key=True)
        charges = NumberAttribute(default=0)

    staged = Staged()
    with TransactWrite(connection=staged) as write:
        write.save(Order("7", charges=1), condition=Order.id.does_not_exist())
        write.update(Order("8"), actions=[Order.charges.add(1)])
        write.delete(Order("9"))
        write.condition_check(Order, "10", condition=Order.id.exists())
    assert [(write.verb, write.table) for write in staged.writes] == [
        ("ConditionCheck", "Orders"),
        ("Delete", "Orders"),
        ("Put", "Orders"),
        ("Update", "Orders"),
    ]
    assert staged.writes[2].request["Item"] == {"id": {"S": "7"}, "charges": {"N": "1"}}
