"""The expressions that the model reads, and that it refuses what it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from tests.performance.simulation.expressions import condition, statement, update

NAMES = {"#v": "version", "#u": "until"}
VALUES: dict[str, Any] = {":one": {"N": "1"}, ":ten": {"N": "10"}, ":a": {"S": "a"}}
ITEM: dict[str, Any] = {"pk": {"S": "p"}, "version": {"N": "1"}, "until": {"N": "9"}, "name": {"S": "a"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attribute_not_exists(pk)", False),
        ("attribute_exists(pk) AND #v = :one", True),
        ("#v = :one AND #u <= :one", False),
        ("#v = :ten OR (#u < :ten AND name = :a)", True),
        ("NOT #v = :one", False),
        ("missing = :one", False),
        ("missing <> :one", True),
        ("name = :one", False),
        ("#u BETWEEN :one AND :ten", True),
        ("begins_with(name, :a)", True),
    ],
)
def test_conditions(text: str, *, expected: bool) -> None:
    assert condition(text, NAMES)(ITEM, VALUES) is expected


def test_no_item_fulfils_only_its_absence() -> None:
    assert condition("attribute_not_exists(pk)", {})(None, {})
    assert not condition("#v = :one", NAMES)(None, VALUES)


def test_updates_set_add_and_remove() -> None:
    item = dict(ITEM)
    for change in update("SET name = :a, #u = :one ADD #v :ten, #n :ten REMOVE pk", {**NAMES, "#n": "new"}):
        change(item, VALUES)
    assert item == {"name": {"S": "a"}, "until": {"N": "1"}, "version": {"N": "11"}, "new": {"N": "10"}}


def test_a_statement_names_its_parameters_in_order() -> None:
    text = statement('UPDATE "q" SET "token" = ? SET "until" = ? WHERE "pk" = ? AND "sk" = ? AND "version" = ?')
    assert (text.verb, text.table, text.sets) == ("UPDATE", "q", ["token", "until"])
    assert text.terms == [("pk", "="), ("sk", "="), ("version", "=")]
    assert statement('DELETE FROM "q" WHERE "pk" = ? AND "sk" = ? RETURNING ALL OLD *').returns_old


@pytest.mark.parametrize("text", ["size(body) > :one", "a = b", "contains(name, :a)", "a IN (:one, :ten)"])
def test_what_the_model_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises((NotImplementedError, IndexError)):
        condition(text, {})(ITEM, VALUES)


@pytest.mark.parametrize("text", ['SELECT * FROM "q"', 'DELETE FROM "q" WHERE "sk" = ? AND "pk" = ?', "UPDATE q SET a"])
def test_a_statement_that_the_model_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(NotImplementedError):
        statement(text)
