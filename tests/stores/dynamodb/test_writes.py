"""One write, three forms: a plain request, a part of a transaction, a statement of a batch."""

from __future__ import annotations

import pytest

from millrace.stores.dynamodb.conditions import ABSENT, at_most, holds_token, version_is
from millrace.stores.dynamodb.writes import Write, delete, put, update

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
ITEM = {**KEY, "nonce": {"S": "n"}}


def test_a_fenced_update_carries_its_condition_in_both_forms() -> None:
    write = update("table", KEY, holds_token("t"), sets={"until": {"N": "5"}})
    assert write.request() == {
        "TableName": "table",
        "Key": KEY,
        "UpdateExpression": "SET #s0 = :s0",
        "ConditionExpression": "#c0 = :c0",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#s0": "until", "#c0": "token"},
        "ExpressionAttributeValues": {":s0": {"N": "5"}, ":c0": {"S": "t"}},
    }
    assert write.statement() == {
        "Statement": 'UPDATE "table" SET "until" = ? WHERE "pk" = ? AND "sk" = ? AND "token" = ?',
        "Parameters": [{"N": "5"}, {"S": "p"}, {"S": "s"}, {"S": "t"}],
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_an_insert_is_a_put_where_nothing_is() -> None:
    write = put("table", ITEM, ABSENT)
    assert write.request()["ConditionExpression"] == "attribute_not_exists(pk)"
    assert write.statement()["Statement"] == "INSERT INTO \"table\" VALUE {'pk': ?, 'sk': ?, 'nonce': ?}"
    assert write.in_transaction() == {"Put": write.request()}


def test_a_batched_deletion_asks_for_the_old_item() -> None:
    text = delete("table", KEY, holds_token("t") & version_is(2)).statement()["Statement"]
    assert text == (
        'DELETE FROM "table" WHERE "pk" = ? AND "sk" = ? AND "token" = ? AND "version" = ? RETURNING ALL OLD *'
    )


def test_additions_and_removals_are_one_update() -> None:
    request = update("table", KEY, adds={"depth": -2, "done": 2}, removes=["a1"]).request()
    assert request["UpdateExpression"] == "ADD #a0 :a0, #a1 :a1 REMOVE #r0"
    assert request["ExpressionAttributeNames"] == {"#a0": "depth", "#a1": "done", "#r0": "a1"}
    assert request["ExpressionAttributeValues"] == {":a0": {"N": "-2"}, ":a1": {"N": "2"}}


@pytest.mark.parametrize(
    "write",
    [
        put("table", ITEM),
        put("table", ITEM, at_most("at", 1)),
        delete("table", KEY),
        update("table", KEY, holds_token("t"), adds={"depth": 1}),
    ],
)
def test_what_a_batch_cannot_fence_is_refused(write: Write) -> None:
    with pytest.raises(ValueError, match="no statement"):
        write.statement()
