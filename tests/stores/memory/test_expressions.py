"""Conditions and updates as DynamoDB reads them, held to DynamoDB Local's own answers."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.app_tables import AppTables, ConditionNotMet
from millrace.stores.memory.expressions import holds, updated
from tests.app_table import NAME, Orders

ITEM: dict[str, Any] = {
    "n": {"N": "5"},
    "m": {"N": "5.0"},
    "s": {"S": "abc"},
    "l": {"L": [{"S": "x"}, {"N": "2"}]},
    "map": {"M": {"in1": {"N": "1"}, "deep": {"M": {"x": {"S": "y"}}}}},
    "set": {"SS": ["a", "b"]},
    "yes": {"BOOL": True},
}
VALUES: dict[str, Any] = {
    ":five": {"N": "5"},
    ":six": {"N": "6"},
    ":a": {"S": "a"},
    ":abc": {"S": "abc"},
    ":x": {"S": "x"},
    ":ss": {"SS": ["b", "a"]},
    ":bc": {"SS": ["b", "c"]},
    ":N": {"S": "N"},
    ":l": {"L": [{"S": "z"}]},
    ":three": {"N": "3"},
}
CONDITIONS = [
    "n = :five",
    "n = m",
    "n <> :five",
    "gone <> :five",
    "gone = :five",
    "n < :six AND n > :three",
    "n <= :five AND NOT n >= :six",
    "(n = :six OR s = :abc) AND attribute_exists(l)",
    "n BETWEEN :three AND :five",
    "n IN (:three, :five)",
    "s IN (:a, :x)",
    "begins_with(s, :a)",
    "contains(s, :abc)",
    "contains(l, :x)",
    "contains(#set, :a)",
    "#set = :ss",
    "attribute_type(n, :N)",
    "attribute_not_exists(#map.in1)",
    "attribute_exists(#map.deep.x)",
    "l[0] = :x",
    "l[1] = :five",
    "size(s) = :three",
    "size(l) < :three",
    "s < :five",
]
UPDATES = [
    "SET n = :six",
    "SET n = n + :five, fresh = if_not_exists(fresh, :three)",
    "SET #map.in1 = #map.in1 - :three REMOVE s",
    "SET l[1] = :x, l[7] = :a",
    "SET l = list_append(l, :l)",
    "SET a = n, n = :six",
    "ADD n :three, total1 :five, #set :bc",
    "DELETE #set :bc",
    "REMOVE #map.deep, l[0]",
    "set n = :six remove s",
]
WRONG = ["n =", "n == :five", "n = :five AND", "size(", "#unknown = :five", "? = ?"]
NAMES = {"#set": "set", "#map": "map"}


def used(values: dict[str, Any], text: str) -> dict[str, Any]:
    """DynamoDB refuses names and values that an expression does not use."""
    words = set(text.replace("(", " ").replace(")", " ").replace(",", " ").replace(".", " ").split())
    return {name: value for name, value in values.items() if name in words}


def settings(text: str) -> dict[str, Any]:
    names, values = used(NAMES, text), used(VALUES, text)
    found: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
    return {**found, "ExpressionAttributeValues": values} if values else found


@pytest.fixture
def orders(dynamo_store: DynamoStore, tenant: str, dynamo_client: Any) -> Orders:
    return Orders(dynamo_store, tenant, dynamo_client)


@pytest.fixture
def stored(orders: Orders) -> dict[str, Any]:
    key = orders.key(1)
    orders.client.put_item(TableName=NAME, Item={**key, **ITEM})
    return {"TableName": NAME, "Key": key}


def test_conditions_hold_as_they_do_on_dynamodb(orders: Orders, stored: dict[str, Any]) -> None:
    for text in CONDITIONS:
        try:
            update = "SET seen = :seen"
            given = settings(text)
            given["ExpressionAttributeValues"] = {**given.get("ExpressionAttributeValues", {}), ":seen": {"N": "1"}}
            orders.client.update_item(**stored, UpdateExpression=update, ConditionExpression=text, **given)
            expected = True
        except orders.client.exceptions.ConditionalCheckFailedException:
            expected = False
        assert holds(text, NAMES, VALUES, ITEM) is expected, text


def test_updates_give_what_they_do_on_dynamodb(orders: Orders, stored: dict[str, Any]) -> None:
    for text in UPDATES:
        orders.client.put_item(TableName=NAME, Item={**stored["Key"], **ITEM})
        orders.client.update_item(**stored, UpdateExpression=text, **settings(text))
        found = orders.client.get_item(**stored, ConsistentRead=True)["Item"]
        expected = updated(text, NAMES, VALUES, {**stored["Key"], **ITEM})
        for item in (found, expected):
            if "set" in item:
                item["set"]["SS"].sort()
        found["m"] = expected["m"]  # DynamoDB writes 5.0 as 5
        assert found == expected, text


@pytest.mark.parametrize("text", WRONG)
def test_what_dynamodb_would_refuse_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        holds(text, NAMES, VALUES, ITEM)


def test_updates_that_have_no_value_are_errors() -> None:
    for text in ["SET n = gone", "SET n = s + :five", "SET gone.in1 = :five", "ADD s :five", "DELETE n :bc", "n"]:
        with pytest.raises(ValueError, match=r"\w"):
            updated(text, NAMES, VALUES, ITEM)


def test_an_item_that_is_not_there_fulfils_its_absence() -> None:
    assert holds("attribute_not_exists(pk)", {}, {}, None)
    assert not holds("n = :five", {}, VALUES, None)


def test_a_failed_condition_is_raised_as_boto3_shapes_it() -> None:
    tables = AppTables()
    tables.create("Orders", "id")
    item = {"id": {"S": "7"}}
    tables.put_item(TableName="Orders", Item=item)
    with pytest.raises(ConditionNotMet) as refused:
        tables.put_item(TableName="Orders", Item=item, ConditionExpression="attribute_not_exists(id)")
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
