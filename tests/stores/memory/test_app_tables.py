"""An app's tables in memory: single items, transactions, and what is wrong with a write in words."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.errors import InvalidTransaction
from millrace.stores.memory.app_tables import AppTables, ConditionNotMet

KEY: dict[str, Any] = {"id": {"S": "7"}, "line": {"N": "1"}}


@pytest.fixture
def tables() -> AppTables:
    tables = AppTables()
    tables.create("Orders", "id", "line")
    return tables


def test_items_are_put_updated_read_and_deleted(tables: AppTables) -> None:
    tables.put_item(TableName="Orders", Item={**KEY, "open": {"BOOL": True}})
    adding = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    tables.update_item(TableName="Orders", Key=KEY, **adding)
    tables.update_item(TableName="Orders", Key={**KEY, "line": {"N": "2"}}, **adding)
    assert tables.get_item(TableName="Orders", Key={"id": {"S": "7"}, "line": {"N": "1.0"}}) == {
        "Item": {**KEY, "open": {"BOOL": True}, "n": {"N": "1"}}
    }
    tables.delete_item(TableName="Orders", Key=KEY)
    assert tables.get_item(TableName="Orders", Key=KEY) == {}
    assert tables.items("Orders") == [{**KEY, "line": {"N": "2"}, "n": {"N": "1"}}]


def test_a_transaction_happens_as_a_whole_or_not_at_all(tables: AppTables) -> None:
    other = {**KEY, "line": {"N": "2"}}
    absent = {"TableName": "Orders", "Key": other, "ConditionExpression": "attribute_exists(id)"}
    put = {"Put": {"TableName": "Orders", "Item": KEY}}
    with pytest.raises(ConditionNotMet) as refused:
        tables.transact_write_items(TransactItems=[put, {"ConditionCheck": absent}])
    assert [one["Code"] for one in refused.value.response["CancellationReasons"]] == ["None", "ConditionalCheckFailed"]
    assert tables.items("Orders") == []
    tables.transact_write_items(TransactItems=[put])
    assert tables.items("Orders") == [KEY]


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([{"Put": {"TableName": "Others", "Item": KEY}}], "no table 'Others' in memory"),
        ([{"Put": {"TableName": "Orders", "Item": {"id": {"S": "7"}}}}], "has no 'line', which is in its key"),
        ([{"Put": {"TableName": "Orders", "Item": KEY}}] * 2, "two of its writes are to the same one"),
        ([{"Update": {"TableName": "Orders", "Key": KEY, "UpdateExpression": "SET n = n + n"}}], "not a number"),
        ([{"Delete": {"TableName": "Orders", "Key": KEY, "ConditionExpression": "what?"}}], "would not take"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(tables: AppTables, items: list[Any], told: str) -> None:
    with pytest.raises(InvalidTransaction, match=told):
        tables.transact_write_items(TransactItems=items)
    assert tables.items("Orders") == []


def test_a_table_has_a_key() -> None:
    with pytest.raises(ValueError, match="partition key"):
        AppTables().create("Orders")
